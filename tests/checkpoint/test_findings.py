from __future__ import annotations

import sys

import pytest

from tests.checkpoint import builders as b
from tests.helpers import fails
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.needs import needs_of
from vpatch.checkpoint.tokenizer import Tokenizer, tokenizer_of


def kinds(folder, *, platform=None, tokenizer=None, faults=True):
    found = findings_of(b.look_at(folder), tokenizer or Tokenizer(None), platform)
    return {finding.kind: finding.what for finding in found if finding.fault is faults}


def needed(folder, platform=None):
    return {need.patch: need.reason for need in needs_of(b.look_at(folder), platform)}


def quantised(method="fp8", **keys):
    scheme = {"activation_scheme": "dynamic"} if method == "fp8" else {}
    return {"quantization_config": {"quant_method": method, **scheme, **keys}}


FP8 = quantised(weight_block_size=[128, 128], modules_to_not_convert=[])


def fp8_trunk():
    found = b.trunk(dtype="F8_E4M3")
    for name in [name for name, (dtype, _) in found.items() if dtype == "F8_E4M3"]:
        found[name.replace(".weight", ".weight_scale_inv")] = ("F32", (1, 1))
    return found


def test_a_whole_checkpoint_has_no_findings(tmp_path):
    assert kinds(b.mimo(tmp_path)) == {}
    assert kinds(tmp_path, faults=False) == {}


def test_mtp_that_is_declared_and_not_there(tmp_path):
    found = kinds(b.mimo(tmp_path, head=False))
    assert list(found) == ["mtp-dropped"]
    assert found["mtp-dropped"].startswith("1 MTP layer is declared, and none of the tensors")


def test_mtp_that_is_there_and_not_declared(tmp_path):
    found = kinds(b.mimo(tmp_path, declared=None))
    assert list(found) == ["mtp-undeclared"]
    assert found["mtp-undeclared"].startswith("13 MTP tensors are there")


def test_no_mtp_at_all(tmp_path):
    found = kinds(b.mimo(tmp_path, declared=None, head=False), faults=False)
    assert found == {"no-mtp": "there is no MTP: no key in config.json, and no tensors"}


def test_no_mtp_with_a_key_that_says_so(tmp_path):
    found = kinds(b.mimo(tmp_path, declared=0, head=False), faults=False)
    assert found == {"no-mtp": "there is no MTP: 0 layers in config.json, and no tensors"}


def test_no_mtp_is_no_fault_of_a_model_that_never_has_it(tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM"), b.trunk())
    assert kinds(tmp_path) == {}
    assert list(kinds(tmp_path, faults=False)) == ["no-mtp"]


def test_fewer_layers_than_declared(tmp_path):
    assert "of number 1 (from 0)" in kinds(b.mimo(tmp_path, declared=2))["mtp-layers"]


def test_a_missing_tensor_of_an_mtp_layer(tmp_path):
    head = b.qwen_head()
    del head["mtp.layers.0.mlp.gate_proj.weight"]
    config = b.config_of("Qwen3NextForCausalLM", num_nextn_predict_layers=1)
    b.write_checkpoint(tmp_path, config, b.trunk() | head)
    found = kinds(tmp_path)
    assert found == {"mtp-incomplete": "MTP tensors are missing: mtp.layers.0.mlp.gate_proj"}


def test_mtp_tensors_under_other_names(tmp_path):
    config = b.config_of("DeepseekV3ForCausalLM", num_nextn_predict_layers=1)
    b.write_checkpoint(tmp_path, config, b.trunk() | b.mimo_head())
    assert "are called model.mtp_layers.N" in kinds(tmp_path)["mtp-names"]


def test_a_scale_that_is_missing(tmp_path):
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1) | FP8
    head = b.mimo_head() | {"model.mtp_layers.0.mlp.up_proj.weight": b.matrix("F8_E4M3")}
    b.write_checkpoint(tmp_path, config, fp8_trunk() | head)
    assert "no scale: model.mtp_layers.0.mlp.up_proj" in kinds(tmp_path)["mtp-scales"]


def test_a_config_that_contradicts_itself(tmp_path):
    found = kinds(b.mimo(tmp_path, n_predict=2))
    assert "num_nextn_predict_layers 1, n_predict 2" in found["mtp-contradiction"]


def test_int8_without_a_config(tmp_path):
    config = b.config_of("LlamaForCausalLM")
    b.write_checkpoint(tmp_path, config, b.trunk(dtype="I8"))
    found = kinds(tmp_path)
    assert list(found) == ["int8-without-config"]
    assert found["int8-without-config"].startswith("14 modules are INT8")
    b.write_checkpoint(tmp_path, config | quantised("compressed-tensors"), b.trunk(dtype="I8"))
    assert kinds(tmp_path) == {}


def test_modelopt_has_a_file_of_its_own(tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM"), fp8_trunk())
    assert "quantised-without-config" in kinds(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    assert kinds(tmp_path) == {}
    assert b.look_at(tmp_path).quantisation.method == "modelopt"


def test_packed_weights_without_a_config(tmp_path):
    tensors = b.trunk() | {"model.layers.0.mlp.up_proj.weight_packed": ("I32", (8, 1))}
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM"), tensors)
    assert "model.layers.0.mlp.up_proj" in kinds(tmp_path)["quantised-without-config"]


@pytest.mark.parametrize(
    ("platform", "lacks"),
    [
        ("cuda", False),
        ("cuda:9.0", False),
        ("cuda:7.5", False),
        ("cuda:7.0", True),
        ("rocm", False),
        ("ascend", False),
        ("metax", True),
        ("cpu", False),
    ],
)
def test_fp8_on_a_platform(platform, lacks, tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM") | FP8, fp8_trunk())
    found = kinds(tmp_path, platform=platform)
    assert ("fp8-platform" in found) == lacks


def test_fp8_without_blocks_on_a_cpu(tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM") | quantised(), fp8_trunk())
    assert "in blocks alone" in kinds(tmp_path, platform="cpu")["fp8-platform"]


def test_fp8_is_noted_where_no_platform_is_named(tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM") | FP8, fp8_trunk())
    assert kinds(tmp_path) == {}
    assert "fp8" in kinds(tmp_path, faults=False)


@pytest.mark.parametrize("platform", ["cuda:", "cuda:x", "tpu", "rocm:1"])
def test_a_platform_that_there_is_not(platform, tmp_path):
    with fails("checkpoint.unknown-platform"):
        kinds(b.mimo(tmp_path), platform=platform)


def test_an_unquantised_head_that_the_config_covers(tmp_path):
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1) | FP8
    b.write_checkpoint(tmp_path, config, fp8_trunk() | b.mimo_head())
    found = kinds(tmp_path)
    assert list(found) == ["mtp-format"]
    # input_proj is never quantised, in whatever trunk.
    assert "vLLM will build 4 modules quantised" in found["mtp-format"]
    assert "such as model.layers.2.self_attn.qkv_proj" in found["mtp-format"]


def test_an_unquantised_head_that_is_left_out(tmp_path):
    names = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")
    parts = [n for part in "qkv" for n in [f"self_attn.{part}_proj"]]
    parts += ["mlp.gate_proj", "mlp.up_proj", *names]
    left = [f"model.layers.2.{name}" for name in parts]
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    config |= quantised(modules_to_not_convert=left)
    b.write_checkpoint(tmp_path, config, fp8_trunk() | b.mimo_head())
    assert kinds(tmp_path) == {}
    assert "mtp-format-differs" in kinds(tmp_path, faults=False)


def test_deepseek_v4_has_two_projections_that_no_trunk_has(tmp_path):
    names = ["e_proj", "h_proj"]
    found = b.look_at(b.v4(tmp_path, [r"re:.*\.(attn|ffn)\."])).built_quantised()
    assert found == [f"mtp.0.{name}" for name in names]
    left_out = [f"model.layers.2.{name}" for name in names]
    assert b.look_at(b.v4(tmp_path, [r"re:.*\.(attn|ffn)\.", *left_out])).built_quantised() == []


def test_a_head_in_another_quantised_format(tmp_path):
    head = b.mimo_head()
    for name in [name for name in head if "_proj" in name]:
        head[name.replace(".weight", ".weight_packed")] = ("I32", (8, 1))
        head[name.replace(".weight", ".weight_scale")] = ("F32", (8, 1))
        del head[name]
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1) | FP8
    b.write_checkpoint(tmp_path, config, fp8_trunk() | head)
    assert "is in packed, and the trunk in F8_E4M3" in kinds(tmp_path)["mtp-format"]


def test_a_missing_shard(tmp_path):
    shards = {"a.safetensors": b.trunk(), "b.safetensors": b.mimo_head()}
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    b.write_checkpoint(tmp_path, config, shards)
    (tmp_path / "b.safetensors").unlink()
    found = kinds(tmp_path)
    assert found == {
        "missing-shard": "b.safetensors is not there, which the index says has 13 tensors"
    }


def test_tensors_that_are_promised(tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM"), {"a.safetensors": b.trunk()})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        index.read_text().replace('{"model.embed', '{"x": "a.safetensors", "model.embed')
    )
    assert "do not have: x" in kinds(tmp_path)["absent-tensors"]


def test_a_shard_beside_the_index_and_no_config(tmp_path):
    b.write_checkpoint(tmp_path, {}, {"a.safetensors": b.trunk()})
    b.write_shard(tmp_path / "c.safetensors", {"x": b.matrix()})
    (tmp_path / "config.json").unlink()
    assert "no-config" in kinds(tmp_path)
    assert "c.safetensors" in kinds(tmp_path, faults=False)["unlisted-shards"]


def fake_transformers(folder, *classes):
    (folder / "transformers.py").write_text(
        "__version__ = '4.57.1'\n" + "".join(f"class {name}: ...\n" for name in classes)
    )
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("named", "known"),
    [("Qwen2Tokenizer", True), ("Qwen2TokenizerFast", True), ("TokenizersBackend", False)],
)
def test_a_tokenizer_that_transformers_has_or_lacks(named, known, tmp_path):
    python = fake_transformers(tmp_path, "Qwen2Tokenizer")
    config = b.config_of("LlamaForCausalLM")
    b.write_checkpoint(tmp_path, config, b.trunk(), tokenizer={"tokenizer_class": named})
    asked = tokenizer_of(FolderFiles(tmp_path), python)
    assert asked == Tokenizer(named, False, "4.57.1", known)
    found = kinds(tmp_path, tokenizer=asked)
    assert bool(found) is not known
    if not known:
        assert found["tokenizer"] == "transformers 4.57.1 has no tokenizer class TokenizersBackend"


def test_a_new_tokenizer_is_noted_where_nobody_is_asked(tmp_path):
    b.mimo(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    found = tokenizer_of(FolderFiles(tmp_path), None)
    assert "tokenizer-new" in kinds(tmp_path, tokenizer=found, faults=False)


@pytest.mark.parametrize("settings", ["{}", '{"tokenizer_class": 1}'])
def test_a_tokenizer_of_no_class(settings, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(settings)
    assert tokenizer_of(FolderFiles(tmp_path), tmp_path / "no-python") == Tokenizer(None)


def test_a_tokenizer_with_its_own_code_is_not_asked_for(tmp_path):
    settings = '{"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", null]}}'
    (tmp_path / "tokenizer_config.json").write_text(settings)
    assert tokenizer_of(FolderFiles(tmp_path), tmp_path / "no-python") == Tokenizer("Own", True)


@pytest.mark.parametrize("script", ["exit 1", "echo no", "exec no-such-program"])
def test_a_python_that_does_not_answer(script, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Any"}')
    with fails("checkpoint.wrong-engine"):
        tokenizer_of(FolderFiles(tmp_path), python)
    with fails("checkpoint.wrong-engine"):
        tokenizer_of(FolderFiles(tmp_path), tmp_path / "nowhere")


def test_what_deepseek_v4_needs(tmp_path):
    found = needed(b.v4(tmp_path, []))
    assert sorted(found) == ["deepgemm-next-n-3", "mtp-proj-prefix", "o-proj-bf16-fallback"]
    assert found["o-proj-bf16-fallback"] == "mtp.0.attn.wo_a is not quantised"


def test_an_unquantised_deepseek_v4_needs_no_prefix(tmp_path):
    assert "mtp-proj-prefix" not in needed(b.v4(tmp_path, [], quantization_config=None))


def test_what_a_platform_needs(tmp_path):
    b.mimo(tmp_path)
    assert needed(tmp_path) == {}
    speculation = {"cpu-spec-decode-fp64-gumbel", "cpu-spec-decode-expand-copy-back"}
    assert set(needed(tmp_path, "cpu")) == speculation
    assert needed(tmp_path, "metax") == {}
    tensors = (
        b.trunk() | b.mimo_head() | {"model.layers.0.mlp.experts.0.up_proj.weight": b.matrix()}
    )
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    b.write_checkpoint(tmp_path, config, tensors)
    assert set(needed(tmp_path, "metax")) == {"optional-disable-inplace"}


def test_without_mtp_nothing_is_needed(tmp_path):
    assert needed(b.mimo(tmp_path, head=False), "cpu") == {}


def test_a_key_that_vllm_does_not_need(tmp_path):
    config = b.config_of("Qwen3NextForCausalLM")
    folder = b.write_checkpoint(tmp_path, config, b.trunk() | b.qwen_head())
    assert kinds(folder) == {}
    assert kinds(folder, faults=False)["mtp-undeclared"].endswith(
        "config.json declares no MTP layer: vLLM takes 1"
    )


def test_a_key_of_another_model(tmp_path):
    folder = b.mimo(tmp_path, declared=None, mtp_num_hidden_layers=1)
    assert kinds(folder)["mtp-undeclared"].endswith("does not have num_nextn_predict_layers")


def test_the_key_of_inkling_is_in_a_part_of_its_own(tmp_path):
    config = b.config_of("InklingForCausalLM")
    tensors = {"model.mtp.layers.0.enorm.weight": b.NORM}
    found = b.look_at(b.write_checkpoint(tmp_path, config, b.trunk() | tensors))
    hints = {one.kind: one.hint for one in findings_of(found, Tokenizer(None), None)}
    place = "mtp_config.num_nextn_predict_layers"
    assert hints["mtp-undeclared"] == f"set {place} to 1 in config.json"
