"""MTP layers quantised by vpatch are those that compressed-tensors writes, bit for bit."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint import builders as b
from tests.engine.conftest import vpatch
from tests.engine.test_checkpoint import smoke
from tests.engine.test_tiny_deepseek_v4 import inside
from tests.helpers import fails
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.folder import open_checkpoint
from vpatch.checkpoint.inspection import inspect
from vpatch.checkpoint.quantise import graft_quantised, quantise_mtp
from vpatch.checkpoint.quantiser import Quantiser
from vpatch.checkpoint.tokenizer import Tokenizer
from vpatch.progress import Silent

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MTP = "model.mtp_layers.0"
FORMATS = {
    "int4-group": "pack-quantized",
    "int4-group-asymmetric": "pack-quantized",
    "int4-channel": "pack-quantized",
    "int8-group": "pack-quantized",
    "int8-channel": "pack-quantized",
    "int8-channel-asymmetric": "pack-quantized",
    "w8a8-int": "int-quantized",
    "fp8-tensor": "float-quantized",
    "fp8-channel": "float-quantized",
    "fp8-block": "float-quantized",
    "nvfp4": "nvfp4-pack-quantized",
    "mxfp4": "mxfp4-pack-quantized",
    "deepseek-v3": "naive-quantized",
    "deepseek-v3.1": "naive-quantized",
}


@pytest.fixture(scope="module")
def trunks(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trunks")
    command = [engine.python, HERE / "quantised_trunks.py", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == list(FORMATS)
    return folder


@pytest.fixture(scope="module")
def quantiser(engine):
    # Each matrix has several times as many values: they are quantised in pieces.
    with Quantiser(engine.python, values=20_000) as found:
        yield found


@pytest.fixture
def trunk(trunks, tmp_path):
    """Copy a format's trunk, with an MTP layer that is not quantised."""
    return lambda name: Path(shutil.copytree(trunks / name / "trunk", tmp_path / name))


def values(folder):
    found = {}
    for name, tensor, shard in open_checkpoint(folder).tensors():
        data = shard.path.read_bytes()[shard.data + tensor.begin : shard.data + tensor.end]
        found[name] = (tensor.dtype, tensor.shape, hashlib.sha256(data).hexdigest())
    return found


def files(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def faults(folder):
    found = findings_of(inspect(FolderFiles(folder)), Tokenizer(None), None)
    return [one.kind for one in found if one.fault]


def edit(folder, change):
    config = json.loads((folder / "config.json").read_text())
    change(config["quantization_config"])
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(("name", "form"), FORMATS.items())
def test_it_is_what_compressed_tensors_writes(name, form, trunks, trunk, quantiser):
    folder = trunk(name)
    done = quantise_mtp(folder, quantiser, Silent())
    assert done.formats == {form: 7}
    assert values(folder) == values(trunks / name / "whole")
    assert faults(folder) == faults(trunks / name / "whole") == []
    lists = [one.ignored.entries for one in inspect(FolderFiles(folder)).judged]
    assert lists == ([] if "deepseek" in name else [("lm_head",)])
    again = files(folder)
    assert not quantise_mtp(folder, quantiser, Silent()).changed
    assert files(folder) == again


def test_old_files_are_kept(trunk, quantiser):
    folder = trunk("int4-group-asymmetric")
    before = files(folder)
    done = quantise_mtp(folder, quantiser, Silent())
    assert [path.name for path in done.shards] == ["model-mtp.safetensors", "b-trunk.safetensors"]
    assert set(files(folder)) == {
        *("a.safetensors", "b-trunk.safetensors", "model-mtp.safetensors"),
        *("b.safetensors.orig", "model.safetensors.index.json", "config.json", "config.json.orig"),
    }
    for old in ("config.json", "b.safetensors"):
        assert files(folder)[f"{old}.orig"] == before[old]


def test_a_grafted_head_is_quantised_at_once(trunks, trunk, quantiser):
    target = trunk("int4-group")
    names = [n for n in open_checkpoint(target).names() if MTP not in n]
    rewrite(target, names)
    edit(target, lambda config: config["ignore"].remove(r"re:.*mtp_layers\."))
    source = trunk("fp8-channel")
    edit(source, lambda config: config.clear())
    done = graft_quantised(target, source, quantiser, Silent())
    assert len(done.grafted) == 13
    assert done.formats == {"pack-quantized": 7}
    whole = values(trunks / "int4-group" / "whole")
    assert values(target) == whole
    assert not graft_quantised(target, source, quantiser, Silent()).changed


def rewrite(folder, names):
    """Leave only these tensors in a checkpoint of one shard."""
    (shard,) = open_checkpoint(folder).shards
    data = shard.path.read_bytes()[shard.data :]
    kept = {name: shard.tensors[name] for name in names}
    b.write_shard(
        shard.path,
        {name: (t.dtype, t.shape) for name, t in kept.items()},
        {name: data[t.begin : t.end] for name, t in kept.items()},
    )


def overwrite(folder, name, start):
    """Replace the first bytes of a tensor."""
    for found, tensor, shard in open_checkpoint(folder).tensors():
        if found == name:
            with shard.path.open("r+b") as file:
                file.seek(shard.data + tensor.begin)
                file.write(start)


@pytest.mark.parametrize("value", [b"\xc0\x7f", b"\x80\x7f", b"\x80\xff"])  # NaN, infinities
@pytest.mark.parametrize("name", ["int4-group", "fp8-tensor", "nvfp4"])
def test_what_is_not_a_number_is_refused(value, name, trunk, quantiser):
    folder = trunk(name)
    overwrite(folder, f"{MTP}.mlp.up_proj.weight", value)
    before = files(folder)
    with fails("checkpoint.cannot-convert", rf"{MTP}\.mlp\.\w+_proj\.weight has values that are"):
        quantise_mtp(folder, quantiser, Silent())
    after = files(folder)
    after.pop("model.safetensors.index.json", None)
    before.pop("model.safetensors.index.json", None)
    assert after == before


def test_a_shape_that_does_not_fit_is_refused(trunk, quantiser):
    folder = trunk("int4-group")
    before = files(folder)
    edit(folder, lambda c: c["config_groups"]["group_0"]["weights"].update(group_size=160))
    with fails("checkpoint.cannot-convert", r"down_proj\.weight: 256 x 384 cannot be cut into gro"):
        quantise_mtp(folder, quantiser, Silent())
    assert {**files(folder), "config.json": before["config.json"]} == before


def test_another_format_than_the_trunk_has_is_refused(trunk, quantiser):
    folder = trunk("int8-channel")
    edit(folder, lambda c: c["config_groups"]["group_0"]["weights"].update(symmetric=False))
    with fails(
        "checkpoint.cannot-convert", r"would become .*weight_zero_point I32.*, and model\.l"
    ):
        quantise_mtp(folder, quantiser, Silent())


def test_what_compressed_tensors_does_not_know_is_refused(trunk, quantiser):
    folder = trunk("int8-channel")
    edit(folder, lambda c: c.update(format="marlin-24"))
    with fails("checkpoint.unsupported-format", "does not write its format: group_0"):
        quantise_mtp(folder, quantiser, Silent())


def test_a_module_that_the_trunk_leaves_out_is_left_out(trunk, quantiser):
    folder = trunk("int8-group")
    kept = [f"model.layers.{i}.mlp.down_proj" for i in (0, 1)]
    whole = values(folder)
    edit(folder, lambda c: c["ignore"].extend(kept))
    as_floats(folder, kept)
    done = quantise_mtp(folder, quantiser, Silent())
    assert done.floats == (f"{MTP}.mlp.down_proj",)
    assert done.added == ("model.layers.2.mlp.down_proj", f"{MTP}.mlp.down_proj")
    assert faults(folder) == []
    assert values(folder)[f"{MTP}.mlp.down_proj.weight"] == whole[f"{MTP}.mlp.down_proj.weight"]


def as_floats(folder, modules):
    """Make modules of a trunk look as if they had not been quantised."""
    for shard in open_checkpoint(folder).shards:
        data = shard.path.read_bytes()[shard.data :]
        own = {n: t for n, t in shard.tensors.items() if n.rpartition(".")[0] not in modules}
        made = {f"{m}.weight": ("BF16", (256, 384)) for m in modules
                if f"{m}.weight_packed" in shard.tensors}  # fmt: skip
        kinds = {name: (t.dtype, t.shape) for name, t in own.items()} | made
        b.write_shard(shard.path, kinds, {n: data[t.begin : t.end] for n, t in own.items()})
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    names = {
        n: s.path.name for s in map(b.read, sorted(folder.glob("*.safetensors"))) for n in s.tensors
    }
    index["weight_map"] = names
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_fused_modules_have_one_format(trunk, quantiser):
    folder = trunk("int4-channel")
    edit(folder, lambda c: c["ignore"].append(r"re:.*\.layers\.[02]\.self_attn\.q_proj"))
    with fails("checkpoint.cannot-convert", r"are one module in vLLM .*qkv_proj"):
        quantise_mtp(folder, quantiser, Silent())


def test_killed_at_any_step_it_leaves_a_whole_checkpoint(engine, trunks):
    driver = [sys.executable, "-m", "tests.engine.kill_quantise"]
    command = [*driver, engine.python, trunks / "int4-group"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["old"] > 15
    assert counts["new"] > 5


def test_a_python_without_compressed_tensors_is_refused():
    with fails("checkpoint.wrong-engine", "No module named"), Quantiser(Path(sys.executable)):
        pass
    with fails("checkpoint.wrong-engine"), Quantiser(Path("/nonexistent/python")):
        pass


def test_a_process_that_dies_leaves_the_checkpoint(engine, trunk):
    folder = trunk("fp8-channel")
    before = files(folder)
    with Quantiser(engine.python) as quantiser:
        quantiser._process.kill()
        quantiser._process.wait()
        with fails("checkpoint.quantiser-ended", "ended with -9"):
            quantise_mtp(folder, quantiser, Silent())
    assert files(folder) == before


NEEDS_AVX512 = pytest.mark.skipif(
    "avx512f" not in Path("/proc/cpuinfo").read_text(),
    reason="vLLM's CPU build multiplies INT4 weights only with AVX-512",
)


@pytest.mark.parametrize("name", [pytest.param("int4-group", marks=NEEDS_AVX512), "w8a8-int"])
def test_a_real_engine_accepts_what_a_quantised_head_drafts(name, engine, quantiser, tmp_path):
    folder = tmp_path / "tiny"
    assert inside(engine, [], HERE / "quantised_tiny.py", name, folder) == str(folder)
    done = quantise_mtp(folder, quantiser, Silent())
    assert f"{MTP}.mlp.down_proj" in done.modules
    found = smoke(tmp_path, folder)["rounds"][0]["passes"]["prompts"]["counters"]
    # Rounding to the nearest changes no place of a largest value: as before, all are accepted.
    assert (found["drafts"], found["accepted"], found["draft_tokens"]) == (11, 22, 22)


def test_memory_does_not_grow_with_a_matrix(engine, trunk):
    folder, large = trunk("int4-group"), f"{MTP}.mlp.up_proj.weight"
    (shard,) = open_checkpoint(folder).shards
    kinds = {name: (t.dtype, t.shape) for name, t in shard.tensors.items()}
    kinds[large] = ("BF16", (24576, 8192))  # 403 MB of holes
    # A hole is zero bytes, which are numbers in every format.
    b.write_shard(shard.path, kinds)
    with Quantiser(engine.python) as quantiser:
        assert quantise_mtp(folder, quantiser, Silent()).before > 400e6
        status = Path(f"/proc/{quantiser._process.pid}/status").read_text()
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert int(peak) * 1024 < 1e9


def test_the_command(engine, trunk):
    folder = trunk("w8a8-int")
    run = vpatch("checkpoint", "quantise-mtp", folder, "--engine", engine.python)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "7 MTP modules made int-quantized by compressed-tensors 0.17.0",
        "  round-to-nearest, 1.1 MB made 561.2 kB, read back",
        "new: model-mtp.safetensors, model-trunk.safetensors; the index leads to them",
        r"no longer left out: re:.*mtp_layers\., re:model\.layers\.2\.",
        (
            "config.json.orig, model.safetensors.orig: what was there before; delete it when the "
            "new one works"
        ),
    ]
    again = vpatch("checkpoint", "quantise-mtp", folder, "--engine", engine.python, "--json")
    assert json.loads(again.stdout)["result"]["quantised"]["modules"] == []
