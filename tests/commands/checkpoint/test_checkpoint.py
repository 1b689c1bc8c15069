"""vpatch checkpoint, as it is typed; what it finds is tested in tests/checkpoint/."""

from __future__ import annotations

import json
import os

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.test_drafts import dspark
from tests.checkpoint.test_reported import glm, step
from tests.checkpoint.test_support import FILES
from tests.projects import archive


def head_of(project, *names):
    return [b.mimo(project.folder / name, head=name == "whole") for name in names]


def state(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_inspect_a_whole_one(empty):
    head_of(empty, "whole")
    out = empty.run("checkpoint", "inspect", "whole").out
    assert out.startswith("MiMoForCausalLM, 2 layers\n  shards        1 shard, 3.4 kB\n")
    assert "tensors: 13 of 1 layer, called model.mtp_layers.N" in out
    assert "finding" not in out


def test_inspect_one_without_its_head(empty):
    head_of(empty, "dropped")
    run = empty.run("checkpoint", "inspect", "dropped", code=1)
    assert "finding: 1 MTP layer is declared, and none of the tensors is there\n" in run.out
    assert "  next: vpatch checkpoint graft-mtp dropped --from ORIGINAL\n" in run.out


def test_inspect_as_json(empty):
    b.v4(empty.folder / "v4", ["mtp.0.e_proj"])
    found = empty.run("checkpoint", "inspect", "v4", "--json", code=1).json
    assert found["architecture"] == "DeepseekV4ForCausalLM"
    assert found["dtypes"]["F8_E4M3"] == {"tensors": 10, "bytes": 640}
    assert found["mtp"]["layers"] == {"0": 21}
    assert found["quantisation"]["lists"][0]["entries"][0]["missed"] == ["model.layers.2.e_proj"]
    assert found["needs"]["vllm"] == ">=0.20.0"
    patches = {one["patch"]: one["vllm"] for one in found["needs"]["patches"]}
    # The others are not in the library of this test.
    assert patches["mtp-proj-prefix"] == ">=0.20.0,<0.24.0"
    assert patches["o-proj-bf16-fallback"] is None
    assert {one["kind"] for one in found["findings"]} >= {"ignore-names", "mtp-format"}


def test_all_modules_of_a_finding_are_printed_and_in_json(empty):
    glm(empty.folder / "glm", ["lm_head"])
    run = empty.run("checkpoint", "inspect", "glm", code=1)
    assert "  modules: model.layers.2.self_attn.fused_qkv_a_proj\n" in run.out
    assert "           model.layers.2.mlp.experts.*.up_proj (2)\n" in run.out
    assert "  pattern: model\\.layers\\.2\\..*\n" in run.out
    (one,) = (
        found
        for found in empty.run("checkpoint", "inspect", "glm", "--json", code=1).json["findings"]
        if found["kind"] == "mtp-format"
    )
    assert len(one["modules"]) == 12
    assert one["pattern"] == r"model\.layers\.2\..*"


def test_a_draft_in_json(empty):
    dspark(empty.folder / "v4")
    found = empty.run("checkpoint", "inspect", "v4", "--json").json
    assert (found["draft"]["kind"], found["draft"]["vllm"]) == ("dspark", ">=0.25.0")
    assert json.loads(found["draft"]["speculative_config"])["method"] == "dspark"
    assert found["needs"]["vllm"] is None


def test_a_list_in_a_file_of_its_own_is_corrected_there(empty):
    folder = step(empty.folder / "step", ["lm_head", "model.layers.2.self_attn*"])
    config = json.loads((folder / "config.json").read_text())
    quantised = config.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "hf_quant_config.json"
    path.write_text(json.dumps({"quantization": quantised}))
    before = state(folder)["config.json"]
    run = empty.run("checkpoint", "ignore-names", "step", "--write")
    assert "hf_quant_config.json is rewritten; hf_quant_config.json.orig is the old file" in run.out
    excluded = json.loads(path.read_text())["quantization"]["exclude_modules"]
    assert "model.layers.2.mtp_block.self_attn.qkv_proj" in excluded
    assert state(folder)["config.json"] == before


def test_inspect_for_a_platform(empty):
    b.v4(empty.folder / "v4", [])
    out = empty.run("checkpoint", "inspect", "v4", "--accelerator", "metax", code=1).out
    assert "10 modules are FP8, and MetaX C500 has no FP8" in out
    run = empty.run("checkpoint", "inspect", "v4", "--accelerator", "abacus", code=2)
    assert "there is no platform abacus" in run.errors


def test_inspect_with_a_python_that_is_none(empty):
    (folder,) = head_of(empty, "whole")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "Any"}')
    run = empty.run("checkpoint", "inspect", "whole", "--engine", "./nowhere", code=2)
    assert "vpatch cannot ask its transformers" in run.errors


def test_ignore_names(empty):
    folder = b.v4(empty.folder / "v4", ["mtp.0.e_proj"])
    before = state(folder)
    run = empty.run("checkpoint", "ignore-names", "v4", code=1)
    assert "missed   model.layers.2.e_proj\n" in run.out
    assert r"better   re:(?:model\.layers\.2\.e_proj|mtp\.0\.e_proj)$" in run.out
    assert state(folder) == before
    assert (
        "config.json.orig is the old file"
        in empty.run("checkpoint", "ignore-names", "v4", "--write").out
    )
    assert state(folder)["config.json.orig"] == before["config.json"]
    after = state(folder)
    again = empty.run("checkpoint", "ignore-names", "v4", "--write").out
    assert again.endswith("was not changed: no entry can be replaced by a better one\n")
    assert state(folder) == after


def test_ignore_names_after_a_kill(empty):
    """What the killed run left goes, though nothing is left to correct."""
    folder = b.v4(empty.folder / "v4", ["mtp.0.e_proj"])
    empty.run("checkpoint", "ignore-names", "v4", "--write")
    after = state(folder)
    (folder / ".vpatch-new").write_text('{"names": ["config.json.orig.2"]}')
    (folder / ".config.json.orig.2.vpatch").write_text("half")
    empty.run("checkpoint", "ignore-names", "v4", "--write")
    assert state(folder) == after


def test_ignore_names_as_json(empty):
    b.v4(empty.folder / "v4", ["mtp.0.e_proj"])
    found = empty.run("checkpoint", "ignore-names", "v4", "--write", "--json").json
    assert (found["fixed"], found["clean"]) == (True, True)
    assert found["lists"][0]["entries"][0]["missed"] == ["model.layers.2.e_proj"]


def test_ignore_names_that_a_person_must_decide(empty):
    b.v4(empty.folder / "v4", ["layers.0.attn.wq_a", "mtp.0.e_proj"])
    run = empty.run("checkpoint", "ignore-names", "v4", "--write", code=1)
    assert "model.layers.0.attn.fused_wqa_wkv is made of modules of which some are named" in run.out
    assert "except where a person must decide" in run.out


def test_ignore_names_without_lists(empty):
    head_of(empty, "whole")
    out = empty.run("checkpoint", "ignore-names", "whole").out
    assert out == "no list of config.json says what is not quantised\n"


def test_ignore_names_of_a_method_that_is_not_known(empty):
    b.mimo(empty.folder / "m", quantization_config={"quant_method": "some_new", "ignore": ["x"]})
    run = empty.run("checkpoint", "ignore-names", "m", code=2)
    assert "how vLLM matches names for some_new" in run.errors
    assert run.codes == ("checkpoint.unknown-method",)


def test_graft_mtp(empty):
    _, folder = head_of(empty, "whole", "dropped")
    run = empty.run("checkpoint", "graft-mtp", "dropped", "--from", "whole")
    assert run.out == (
        "model-mtp.safetensors: 13 MTP tensors, 1.2 kB, read back\n"
        "model.safetensors.index.json leads to them\n"
    )
    after = state(folder)
    run = empty.run("checkpoint", "graft-mtp", "dropped", "--from", "whole")
    assert run.out == "nothing to do: 13 MTP tensors as they are\n"
    assert state(folder) == after
    empty.run("checkpoint", "inspect", "dropped")


def test_graft_mtp_as_json(empty):
    head_of(empty, "whole")
    b.mimo(empty.folder / "dropped", head=False, declared=None)
    args = ("checkpoint", "graft-mtp", "dropped", "--from", "whole", "--json")
    found = empty.run(*args).json
    assert (len(found["written"]), found["config"], found["findings"]) == (
        13,
        ["num_nextn_predict_layers"],
        [],
    )
    assert empty.run(*args).json["written"] == []


def test_graft_mtp_onto_a_quantised_trunk_says_what_is_left(empty):
    """Its own format is not what the config says of the trunk."""
    head_of(empty, "whole")
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    tensors = b.trunk(dtype="F8_E4M3")
    for name in [n for n, (dtype, _) in tensors.items() if dtype == "F8_E4M3"]:
        tensors[f"{name}_scale_inv"] = ("F32", (1, 1))
    method = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    quantised = {"quantization_config": method}
    b.write_checkpoint(empty.folder / "fp8", config | quantised, tensors)
    run = empty.run("checkpoint", "graft-mtp", "fp8", "--from", "whole", code=1)
    assert "the MTP head is BF16, and the quantisation config covers it" in run.out


@pytest.mark.parametrize("command", ["inspect", "ignore-names", "graft-mtp"])
@pytest.mark.parametrize("bad", ["truncated", "pickle", "outside", "nothing"])
def test_bad_input_is_one_clear_message(command, bad, empty):
    whole, folder = head_of(empty, "whole", "bad")
    model = folder / "model.safetensors"
    match bad:
        case "truncated":
            os.truncate(model, model.stat().st_size - 3)
        case "pickle":
            model.rename(folder / "pytorch_model.bin")
        case "outside":
            index = {"weight_map": {"x": "../whole/model.safetensors"}}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        case "nothing":
            folder = folder.with_name("nothing")
    before = state(folder) if folder.exists() else None
    further = ["--from", whole.name] if command == "graft-mtp" else []
    code = 2 if bad in {"pickle", "nothing"} else 1
    run = empty.run("checkpoint", command, folder.name, *further, code=code)
    assert run.out == ""
    assert run.errors.count("error:") == 1
    assert folder.name in run.errors
    assert "next: " in run.errors
    assert (state(folder) if folder.exists() else None) == before


def test_options_that_are_wrong(empty):
    empty.run("checkpoint", "graft-mtp", "x", code=2)
    empty.run("checkpoint", "graft-mtp", "x", "--from", "y", "--tensor-format", "z", code=2)
    empty.run("checkpoint", "look", "x", code=2)


@pytest.mark.parametrize(("vllm", "named"), [("all", "0.50.0 to 0.51.0"), ("0.50", "0.50.0")])
def test_releases_that_run_it(empty, vllm, named):
    added = {path: text for path, text in FILES.items() if path.startswith("vllm/")}
    for version in ("0.50.0", "0.51.0"):
        empty.index.add(version, archive(version, files=added))
    b.write_checkpoint(empty.folder / "small", b.config_of("NewForCausalLM"), b.trunk())
    words = ["checkpoint", "inspect", "small", "--vllm", vllm]
    lines = empty.run(*words, code=1).out.splitlines()
    table = [line.split() for line in lines]
    assert ["release", "model", "MTP", "quantisation", "patches"] in table
    assert [*named.split(), "no", "-", "-", "none"] in table
    row, *_ = empty.run(*words, "--json", code=1).json["releases"]
    assert row == {
        "version": "0.50.0",
        "architecture": False,
        "mtp": None,
        "quantisation": None,
        "patches": [],
    }


def test_a_release_whose_registry_nobody_knows(empty):
    b.write_checkpoint(empty.folder / "small", b.config_of("NewForCausalLM"), b.trunk())
    run = empty.run("checkpoint", "inspect", "small", "--vllm", "0.50", code=1)
    assert run.codes == ("checkpoint.unknown-registry",)
    assert "vllm/model_executor/models/registry.py" in run.errors
