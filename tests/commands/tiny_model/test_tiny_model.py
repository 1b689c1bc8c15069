"""What `vpatch tiny-model` writes, where it refuses to, and what it says of starting vLLM."""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from tests.documents import ROOT, page
from vpatch.commands.smoke.standard import standard_plan
from vpatch.commands.tiny_model.kinds import KINDS
from vpatch.declare.smoke import Model
from vpatch.engine import PAYLOAD
from vpatch.util.digest import digest_of

# safetensors.torch.save_file of torch 2.11.0 wrote these bytes.
WEIGHTS = {
    "all": "894de680fc8c5bb1",
    "none": "3498421fcd0f55b4",
    "first": "96ab471d1e7e943c",
    "most": "84df484fa2f87a25",
    "quantised-trunk": "354b4050b85ff601",
}
SHOWN = "/tmp/tiny"  # noqa: S108 - the reader's folder
FILES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


def fake_python(folder, script):
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("kind", WEIGHTS)
def test_each_kind_has_its_bytes(empty, kind):
    result = empty.run("tiny-model", "model", "--kind", kind, "--json").json
    folder = empty.folder / "model"
    assert (result["kind"], result["folder"]) == (kind, str(folder))
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert [file["name"] for file in result["files"]] == FILES
    for file in result["files"]:
        content = (folder / file["name"]).read_bytes()
        assert (file["digest"], file["bytes"]) == (digest_of(content), len(content))
    weights = {file["name"]: file["digest"] for file in result["files"]}["model.safetensors"]
    assert weights.startswith(f"sha256:{WEIGHTS[kind]}")


def test_a_gap_is_rounded_as_torch_rounds_it(tmp_path):
    code = "import sys; from tiny_mtp import *; from pathlib import Path\n"
    code += "write_checkpoint(Path(sys.argv[1]), gap=0.3)"
    subprocess.run([sys.executable, "-B", "-c", code, tmp_path], cwd=PAYLOAD, check=True)
    digest = digest_of((tmp_path / "model.safetensors").read_bytes())
    assert digest.startswith("sha256:e4ab39222d976d54")


def test_the_weights_can_be_read(empty):
    empty.run("tiny-model", "model")
    content = (empty.folder / "model" / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    ends = sorted(tuple(tensor["data_offsets"]) for tensor in header.values())
    assert [start for start, _ in ends] == [0, *(end for _, end in ends)][:-1]
    assert ends[-1][1] == len(content) - 8 - length
    start, end = header["model.norm.weight"]["data_offsets"]
    assert content[8 + length + start : 8 + length + end] == b"\x80\x3f" * 1024


def test_an_empty_folder_is_filled_and_stays_the_same_one(empty):
    folder = empty.folder / "model"
    folder.mkdir()
    before = folder.stat().st_ino
    run = empty.run("tiny-model", ".", cwd=folder)
    assert run.out.startswith(f"wrote {folder}, kind all\n  config.json ")
    assert folder.stat().st_ino == before
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_what_a_killed_run_left_is_no_content(empty):
    left = empty.folder / "model" / ".model.1-00000000.part"
    left.mkdir(parents=True)
    (left / "config.json").write_text("{}")
    empty.run("tiny-model", "model")
    assert not left.exists()


def test_a_folder_with_files_is_refused(empty):
    (empty.folder / "mine").mkdir()
    (empty.folder / "mine" / "notes").write_text("mine")
    run = empty.run("tiny-model", "mine", code=2)
    assert run.codes == ("harness.folder-not-empty",)
    assert "the folder is not empty" in run.err
    assert [path.name for path in (empty.folder / "mine").iterdir()] == ["notes"]


def test_a_file_is_refused(empty):
    (empty.folder / "mine").write_text("mine")
    run = empty.run("tiny-model", "mine", code=2)
    assert run.codes == ("harness.folder-not-empty",)
    assert (empty.folder / "mine").read_text() == "mine"


def test_a_kind_that_needs_torch_says_so_and_leaves_nothing(empty):
    error = "ModuleNotFoundError: No module named 'torch'"
    python = fake_python(empty.folder, f'echo "{error}" >&2; exit 1')
    run = empty.run("tiny-model", "model", "--kind", "deepseek-v4", "--python", python, code=2)
    assert run.codes == ("harness.missing-package",)
    assert f"{python}: the kind deepseek-v4 needs torch and safetensors: No module" in run.err
    assert "the extra `engine`" in run.err
    assert not (empty.folder / "model").exists()


def test_another_fault_of_a_writer_is_one_of_the_machine(empty):
    python = fake_python(empty.folder, "echo 'OSError: No space left' >&2; exit 1")
    (empty.folder / "model").mkdir()
    run = empty.run("tiny-model", "model", "--kind", "deepseek-v4", "--python", python, code=4)
    assert run.codes == ("harness.model-not-made",)
    assert "the model cannot be written: OSError: No space left" in run.err
    assert list((empty.folder / "model").iterdir()) == []


def test_a_program_that_does_not_start_is_no_python(empty):
    program = empty.folder / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    run = empty.run("tiny-model", "model", "--kind", "deepseek-v4", "--python", program, code=2)
    assert run.codes == ("engine.no-python",)
    assert f"{program}: it is not a Python: " in run.err
    assert not (empty.folder / "model").exists()


def test_the_python_writes_the_kind_that_needs_torch(empty):
    python = fake_python(empty.folder, 'echo "${2##*/} $4" >"$3/config.json"')
    run = empty.run("tiny-model", "model", "--kind", "deepseek-v4", "--python", python)
    text = (empty.folder / "model" / "config.json").read_text()
    assert text == "tiny_deepseek_v4.py deepseek-v4\n"
    assert "it needs one Hopper GPU, and vLLM 0.23.0" in run.out
    prefix = "vpatch run --recipe deepseek-v4-tiny -- python"
    assert f"\n  {prefix} -m vllm.entrypoints.openai.api_server --model " in run.out
    assert f"load it in a script that `{prefix} SCRIPT` starts:" in run.out


def test_a_python_for_another_kind_is_refused(empty):
    run = empty.run("tiny-model", "model", "--python", sys.executable, code=2)
    assert run.codes == ("cli.unused-option",)
    assert not (empty.folder / "model").exists()


def test_the_page_shows_what_is_printed(empty):
    text = page("reference/fixtures.md")
    shown = re.search(r"^\$ vpatch tiny-model /tmp/tiny (.*)\n([^`]*)```", text, re.MULTILINE)
    run = empty.run("tiny-model", "tiny", *shown[1].split())
    assert run.out.replace(str(empty.folder / "tiny"), SHOWN) == shown[2]
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\| ", text, re.MULTILINE)
    assert set(KINDS) <= set(rows)


def test_the_kinds_are_those_of_a_plan():
    (synthetic, _) = get_args(Model.model_fields["synthetic"].annotation)
    assert list(KINDS) == list(get_args(synthetic))


def test_the_commands_have_the_flags_of_plans_that_ran(empty):
    result = empty.run("tiny-model", "model", "--json").json
    assert result["server"][:5] == [
        *("python", "-m", "vllm.entrypoints.openai.api_server", "--model"),
        str(empty.folder / "model"),
    ]
    defaults = standard_plan().defaults
    assert KINDS["all"].flags == defaults.flags
    assert result["environment"] == defaults.environment
    recipe = YAML(typ="safe").load(ROOT / "recipes" / "deepseek-v4-tiny.yaml")
    assert KINDS["deepseek-v4"].flags == recipe["smoke"]["defaults"]["flags"]
    assert recipe["vllm"]["source"] in KINDS["deepseek-v4"].needs
    shown = empty.run("tiny-model", "other").out
    assert shlex.join(result["drafts"]) in shown
    assert json.loads(result["drafts"][1]) == {"method": "mtp", "num_speculative_tokens": 3}


def test_the_call_is_python_with_the_same_flags():
    class Vllm:
        @staticmethod
        def LLM(model, **flags):  # noqa: N802 - as vLLM calls it
            return model, flags

    for kind in KINDS.values():
        model, flags = eval(kind.call(Path("/a b/c")), {"vllm": Vllm})  # noqa: S307
        assert model == "/a b/c"
        assert {name.replace("_", "-"): value for name, value in flags.items()} == kind.flags
