from __future__ import annotations

import pytest

from tests.checkpoint import builders as b
from vpatch.checkpoint.schemes import FAMILIES


def mtp_of(folder, architecture, tensors, **keys):
    return b.look_at(b.write_checkpoint(folder, b.config_of(architecture, **keys), tensors)).mtp


NEXTN = {"num_nextn_predict_layers": 1}
HEADS = {
    "MiMoForCausalLM": (b.mimo_head(), "model.mtp_layers.N", 13, NEXTN),
    "DeepseekV3ForCausalLM": (b.deepseek_head(2), "layers behind the trunk", 13, NEXTN),
    "Glm4MoeForCausalLM": (b.deepseek_head(2), "layers behind the trunk", 13, NEXTN),
    "Qwen3NextForCausalLM": (b.qwen_head(), "mtp.layers.N", 13, NEXTN),
    "Qwen3_5ForCausalLM": (b.qwen_head(), "mtp.layers.N", 13, {"mtp_num_hidden_layers": 1}),
    "Ernie4_5_MoeForCausalLM": (b.ernie_head(), "model.mtp_block.N", 12, NEXTN),
}


@pytest.mark.parametrize("architecture", HEADS)
def test_a_whole_head(architecture, tmp_path):
    head, called, count, keys = HEADS[architecture]
    found = mtp_of(tmp_path, architecture, b.trunk() | head, **keys)
    assert found.scheme.name == called
    assert (len(found.names), list(found.layers), found.count) == (count, [0], 1)
    assert (found.missing, found.lacking) == ((), ())


@pytest.mark.parametrize("architecture", HEADS)
def test_each_tensor_of_a_head_is_missed(architecture, tmp_path):
    head, _, _, keys = HEADS[architecture]
    for i, lost in enumerate(head):
        rest = {name: tensor for name, tensor in head.items() if name != lost}
        found = mtp_of(tmp_path / str(i), architecture, b.trunk() | rest, **keys)
        assert found.missing == (lost.removesuffix(".weight"),)


def test_an_architecture_that_is_not_known_is_looked_through(tmp_path):
    found = mtp_of(tmp_path, "OtherForCausalLM", b.trunk() | b.qwen_head())
    assert (found.family, found.scheme.name) == (None, "mtp.layers.N")


def test_a_trunk_has_no_mtp_layers(tmp_path):
    assert mtp_of(tmp_path, "DeepseekV3ForCausalLM", b.trunk(2)).scheme is None


def test_layers_behind_the_trunk_need_its_number(tmp_path):
    tensors = b.trunk(2) | b.deepseek_head(2)
    config = {"architectures": ["DeepseekV3ForCausalLM"]}
    assert b.look_at(b.write_checkpoint(tmp_path, config, tensors)).mtp.scheme is None


def test_deepseek_v4(tmp_path):
    found = b.look_at(b.v4(tmp_path, [])).mtp
    assert (found.scheme.name, len(found.names), found.missing) == ("mtp.N", 21, ())


def test_deepseek_v4_compresses_in_its_trunk_alone(tmp_path):
    tensors = {}
    for start in ("layers.0", "layers.1", "mtp.0"):
        tensors |= b.v4_layer(start, "BF16", compressor=start != "mtp.0")
    for name in ("e_proj", "h_proj", "enorm", "hnorm"):
        tensors[f"mtp.0.{name}.weight"] = b.NORM
    assert mtp_of(tmp_path, "DeepseekV4ForCausalLM", tensors, **NEXTN).missing == ()


def test_experts_are_missed_by_their_number(tmp_path):
    tensors = b.trunk()
    for layer in ("model.layers.0", "model.layers.1", "model.layers.2"):
        for number in range(3):
            for part in ("gate", "up", "down"):
                name = f"{layer}.mlp.experts.{number}.{part}_proj.weight"
                tensors[name] = b.matrix()
    tensors |= b.deepseek_head(2)
    whole = mtp_of(tmp_path / "whole", "DeepseekV3ForCausalLM", tensors, **NEXTN)
    assert whole.missing == ()
    del tensors["model.layers.2.mlp.experts.1.up_proj.weight"]
    found = mtp_of(tmp_path / "part", "DeepseekV3ForCausalLM", tensors, **NEXTN)
    assert found.missing == ("model.layers.2.mlp.experts.1.up_proj",)
    for part in ("gate", "down"):
        del tensors[f"model.layers.2.mlp.experts.1.{part}_proj.weight"]
    found = mtp_of(tmp_path / "number", "DeepseekV3ForCausalLM", tensors, **NEXTN)
    assert found.missing == ("model.layers.2.mlp.experts.1",)


def test_what_only_some_layers_of_a_trunk_have_is_not_missed(tmp_path):
    tensors = b.trunk() | b.qwen_head()
    tensors["model.layers.0.linear_attn.in_proj_qkv.weight"] = b.matrix()
    found = mtp_of(tmp_path, "Qwen3NextForCausalLM", tensors, **NEXTN)
    assert found.missing == ()


def test_a_quantised_matrix_without_its_scale(tmp_path):
    head = b.mimo_head(dtype="F8_E4M3")
    scaled = {
        name.replace(".weight", ".weight_scale"): ("F32", ())
        for name, (dtype, _) in head.items()
        if dtype == "F8_E4M3"
    }
    whole = mtp_of(tmp_path / "whole", "MiMoForCausalLM", b.trunk() | head | scaled, **NEXTN)
    assert whole.lacking == ()
    del scaled["model.mtp_layers.0.mlp.up_proj.weight_scale"]
    found = mtp_of(tmp_path / "part", "MiMoForCausalLM", b.trunk() | head | scaled, **NEXTN)
    assert found.lacking == ("model.mtp_layers.0.mlp.up_proj",)


@pytest.mark.parametrize(
    ("keys", "declared"),
    [
        ({}, []),
        (NEXTN, [("num_nextn_predict_layers", 1)]),
        ({"text_config": NEXTN}, [("text_config.num_nextn_predict_layers", 1)]),
        ({"mtp_config": NEXTN}, [("mtp_config.num_nextn_predict_layers", 1)]),
        ({"n_predict": 2}, [("n_predict", 2)]),
        ({"num_mtp_modules": 0}, [("num_mtp_modules", 0)]),
        ({"num_nextn_predict_layers": None}, []),
        ({"num_nextn_predict_layers": True}, []),
        ({"num_nextn_predict_layers": -1}, []),
        ({"quantization_config": NEXTN}, []),
    ],
)
def test_what_is_declared(keys, declared, tmp_path):
    found = mtp_of(tmp_path, "MiMoForCausalLM", b.trunk(), **keys)
    assert [(one.key, one.count) for one in found.declared] == declared
    own = [count for key, count in declared if key.endswith("num_nextn_predict_layers")]
    assert found.count == max(own, default=0)


def test_vllm_goes_by_the_key_of_the_architecture(tmp_path):
    keys = {"mtp_num_hidden_layers": 1, "n_predict": 3}
    assert mtp_of(tmp_path, "Qwen3_5ForCausalLM", b.trunk(), **keys).count == 1


def test_some_architectures_have_one_layer_whatever_is_declared(tmp_path):
    found = mtp_of(tmp_path, "MiMoV2FlashForCausalLM", b.trunk())
    assert found.count == 1


def test_no_architecture_is_in_two_families():
    names = [name for family in FAMILIES for name in family.architectures]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("architecture", "head", "keys", "taken"),
    [
        ("Qwen3_5ForCausalLM", b.qwen_head(), {}, 1),
        ("Qwen3_5ForCausalLM", b.qwen_head(), {"num_nextn_predict_layers": 1}, 1),
        ("Qwen3_5ForCausalLM", b.qwen_head(), {"mtp_num_hidden_layers": 0}, None),
        ("MiMoForCausalLM", b.mimo_head(), {}, None),
        ("MiMoForCausalLM", b.mimo_head(), {"mtp_num_hidden_layers": 1}, None),
    ],
)
def test_what_vllm_takes_without_a_key(architecture, head, keys, taken, tmp_path):
    found = mtp_of(tmp_path, architecture, b.trunk() | head, **keys)
    assert (found.count, found.assumed) == (0, taken)
