"""The formats of trunks that compressed-tensors is asked for, and those that it is not."""

from __future__ import annotations

import pytest

from tests.checkpoint import builders as b
from tests.helpers import fails
from vpatch.checkpoint.quantise_plan import plan_quantise
from vpatch.checkpoint.trunk_format import trunk_format
from vpatch.main import cli

INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
INT8 = {"num_bits": 8, "type": "int", "strategy": "tensor"}


def grouped(weights=INT4, **parts):
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, **parts}}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


def found(folder, config, tensors=None):
    whole = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1, quantization_config=config)
    return b.look_at(b.write_checkpoint(folder, whole, tensors or (b.trunk() | b.mimo_head())))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"quant_method": "gptq", "bits": 4}, "quantised by gptq, which"),
        ({"quant_method": "awq", "bits": 4}, "quantised by awq, which"),
        ({"quant_method": "modelopt"}, "quantised by modelopt, which"),
        ({"quant_method": "bitsandbytes"}, "quantised by bitsandbytes, which"),
        (grouped() | {"config_groups": ["W4A16"]}, "its config_groups are not"),
        (grouped() | {"transform_config": {"config_groups": {}}}, "changed .*: transform_config"),
        (grouped() | {"sparsity_config": {"format": "sparse-24"}}, "changed .*: sparsity_config"),
        (grouped(INT4 | {"actorder": "group"}), "orders columns by activations"),
        (grouped(input_activations=INT8 | {"dynamic": False}), "fixed scales for input_activ"),
        (grouped(input_activations=INT4 | {"dynamic": "local"}), "fixed scales for input_activ"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "its activations have fixed sc"),
        ({"quant_method": "deepseek_v4_fp8", "expert_dtype": "fp4"}, "its experts are fp4"),
        ({"quant_method": "fp8"}, "several names: none"),
        (None, "its trunk is not quantised"),
    ],
)
def test_a_format_that_is_not_written_is_named(config, says, tmp_path):
    with fails("checkpoint.unsupported-format", says):
        trunk_format(found(tmp_path / "folder", config))


def test_groups_of_compressed_tensors(tmp_path):
    dynamic = INT8 | {"dynamic": True}
    config = grouped(input_activations=dynamic) | {
        "format": "int-quantized",
        "sparsity_config": {"format": "dense"},
        "transform_config": {},
    }
    made = trunk_format(found(tmp_path / "one", config))
    assert (made.groups, made.kind) == (config["config_groups"], "int-quantized")
    config["config_groups"]["kv"] = {"targets": ["LlamaAttention"], "weights": None}
    made = trunk_format(found(tmp_path / "two", config | {"format": "mixed-precision"}))
    assert (list(made.groups), made.kind) == (["group_0"], None)


def test_blocks_of_deepseek(tmp_path):
    tensors = b.trunk(dtype="F8_E4M3") | b.mimo_head()
    projections = [name for name in tensors if "layers.0" in name and name.endswith("_proj.weight")]
    tensors |= {f"{name}_scale_inv": ("F32", (1, 1)) for name in projections}
    config = {"quant_method": "fp8", "weight_block_size": [128, 64], "scale_fmt": "ue8m0"}
    made = trunk_format(found(tmp_path / "folder", config, tensors))
    assert made.groups["fp8"]["weights"]["block_structure"] == [128, 64]
    assert made.renamed == {"weight_scale": "weight_scale_inv"}
    assert made.power_of_two


class NoQuantiser:
    """What is refused before anything is asked of compressed-tensors."""


def test_a_checkpoint_without_mtp(tmp_path):
    with fails("checkpoint.no-mtp", "graft-mtp"):
        plan_quantise(found(tmp_path / "folder", grouped(), b.trunk()), NoQuantiser())


def test_all_experts_in_one_tensor(tmp_path):
    experts = {"model.mtp_layers.0.mlp.experts.gate_up_proj": ("BF16", (4, 8, 8))}
    inspection = found(tmp_path / "folder", grouped(), b.trunk() | b.mimo_head() | experts)
    with fails("checkpoint.cannot-convert", r"gate_up_proj has all experts in one tensor, \[4, 8,"):
        plan_quantise(inspection, NoQuantiser())


def test_a_missing_shard(tmp_path):
    found(
        tmp_path / "folder", grouped(), {"a.safetensors": b.trunk(), "b.safetensors": b.mimo_head()}
    )
    (tmp_path / "folder" / "a.safetensors").unlink()
    with fails("checkpoint.incomplete", r"shards are missing: a\.safetensors"):
        plan_quantise(b.look_at(tmp_path / "folder"), NoQuantiser())


def refusal(*args):
    with fails("checkpoint.no-engine", "give --engine"):
        cli.main(["checkpoint", *map(str, args)], standalone_mode=False)


def test_an_engine_must_be_named(tmp_path):
    found(tmp_path / "folder", grouped())
    refusal("quantise-mtp", tmp_path / "folder")
    refusal("graft-mtp", tmp_path / "folder", "--from", tmp_path, "--tensor-format", "trunk")


def test_an_engine_that_has_nothing_to_do_is_refused(tmp_path):
    found(tmp_path / "folder", grouped())
    words = ["graft-mtp", str(tmp_path / "folder"), "--from", str(tmp_path), "--engine", "cpu"]
    with fails("cli.unused-option", "nothing is quantised"):
        cli.main(["checkpoint", *words], standalone_mode=False)
