from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoint import builders as b
from vpatch.checkpoint.generalise import pattern_for
from vpatch.checkpoint.ignore_fix import fix_lists


def judged(folder):
    (one,) = b.look_at(folder).judged
    return one


def entries(folder):
    return {one.entry: one for one in judged(folder).entries}


def listed(folder, method, key, value, tensors=None, architecture="LlamaForCausalLM"):
    config = b.config_of(architecture) | {
        "quantization_config": {"quant_method": method, key: value}
    }
    return b.write_checkpoint(folder, config, tensors or b.trunk())


def fixed(folder):
    assert fix_lists(folder, b.look_at(folder).judged)
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    assert judged(folder).clean
    return config


ATTENTION = "model.layers.0.self_attn"


def test_parts_that_vllm_knows_are_enough(tmp_path):
    names = [f"{ATTENTION}.{part}_proj" for part in "qkv"]
    found = judged(listed(tmp_path, "compressed-tensors", "ignore", names))
    assert found.clean
    assert {one.run for one in found.entries} == {(f"{ATTENTION}.qkv_proj",)}


def test_a_pattern_for_parts(tmp_path):
    found = entries(listed(tmp_path, "compressed-tensors", "ignore", [r"re:.*\.[qkv]_proj$"]))
    (one,) = found.values()
    assert (len(one.disk), len(one.run), one.missed) == (6, 2, ())


def test_some_parts_alone_are_split(tmp_path):
    found = judged(listed(tmp_path, "compressed-tensors", "ignore", [f"{ATTENTION}.q_proj"]))
    assert found.split == (f"{ATTENTION}.qkv_proj",)
    assert not found.clean
    assert found.entries[0].better == ()


def test_an_entry_that_hits_in_vllm_alone_is_fine(tmp_path):
    found = judged(listed(tmp_path, "compressed-tensors", "ignore", [f"{ATTENTION}.qkv_proj"]))
    assert found.clean
    assert (found.entries[0].disk, len(found.entries[0].run)) == ((), 1)


def test_a_pattern_that_is_none(tmp_path):
    one = entries(listed(tmp_path, "compressed-tensors", "ignore", ["re:("]))["re:("]
    assert "not a regular expression" in one.fault
    assert not judged(tmp_path).clean


def test_a_part_without_the_others_keeps_its_name(tmp_path):
    tensors = {
        n: t for n, t in b.trunk().items() if not n.endswith((".k_proj.weight", ".up_proj.weight"))
    }
    found = judged(
        listed(tmp_path, "compressed-tensors", "ignore", [f"{ATTENTION}.q_proj"], tensors)
    )
    assert found.clean
    assert found.entries[0].run == (f"{ATTENTION}.q_proj",)


V4_NAMES = {
    "layers.1.attn.wq_a": "model.layers.1.attn.fused_wqa_wkv",
    "layers.1.attn.wkv": "model.layers.1.attn.fused_wqa_wkv",
    "layers.1.attn.compressor.wkv": "model.layers.1.attn.compressor.fused_wkv_wgate",
    "layers.1.attn.compressor.wgate": "model.layers.1.attn.compressor.fused_wkv_wgate",
    "layers.1.ffn.shared_experts.w1": "model.layers.1.ffn.shared_experts.gate_up_proj",
    "layers.1.ffn.shared_experts.w3": "model.layers.1.ffn.shared_experts.gate_up_proj",
}


def test_deepseek_v4_knows_its_parts_from_0_29_on(tmp_path):
    found = entries(b.v4(tmp_path, list(V4_NAMES)))
    assert {name: one.missed for name, one in found.items()} == {
        name: (fused,) for name, fused in V4_NAMES.items()
    }
    assert {one.until for one in found.values()} == {"0.29.0"}
    # In later releases each hits, and so it is said.
    assert {name: one.run for name, one in found.items()} == {
        name: (fused,) for name, fused in V4_NAMES.items()
    }


def test_until_is_said_only_where_it_holds_for_all(tmp_path):
    entry = r"re:(model\.)?layers\.1\.attn\.(wq_a|wkv)$|mtp\.0\.e_proj"
    one = entries(b.v4(tmp_path, [entry]))[entry]
    assert one.missed == ("model.layers.1.attn.fused_wqa_wkv", "model.layers.2.e_proj")
    assert one.until is None


def test_names_that_vllm_maps_are_hit(tmp_path):
    found = entries(b.v4(tmp_path, ["layers.1.attn.wq_b", r"re:layers\.1\.attn\.wq_b"]))
    plain, pattern = found.values()
    assert plain.run == ("model.layers.1.attn.wq_b",)
    # A pattern is not mapped; but here the other entry hits what it would.
    assert (pattern.run, pattern.missed) == ((), ())


def test_an_mtp_layer_has_another_number_in_vllm(tmp_path):
    found = entries(b.v4(tmp_path, ["mtp.0.e_proj", "mtp.0.attn.wo_a"]))
    assert found["mtp.0.e_proj"].missed == ("model.layers.2.e_proj",)
    assert found["mtp.0.attn.wo_a"].missed == ("model.layers.2.attn.wo_a",)
    assert found["mtp.0.e_proj"].until is None


@pytest.mark.parametrize(
    "ignore",
    [
        list(V4_NAMES),
        ["mtp.0.e_proj", "mtp.0.h_proj"],
        [r"re:mtp\.", "head"],
        [r"re:(?i)MTP\.0\.attn"],
        [r"re:(layers|mtp)\.\d+\.ffn\.experts\.", r"re:layers.*shared_experts"],
    ],
)
def test_fixed_lists_hit_both(ignore, tmp_path):
    b.v4(tmp_path, ignore)
    before = judged(tmp_path)
    assert not before.clean
    wanted = {name for one in before.entries for name in (*one.missed, *one.run)}
    config = fixed(tmp_path)
    assert len(config["ignore"]) == len(ignore)
    after = judged(tmp_path)
    assert {name for one in after.entries for name in one.run} == wanted
    assert [one.disk for one in after.entries] == [one.disk for one in before.entries]


def test_vision_models_have_another_prefix(tmp_path):
    tensors = b.trunk(prefix="model.language_model.layers")
    ignore = ["model.language_model.layers.0.mlp.down_proj", r"re:model\.language_model.*o_proj"]
    architecture = "Qwen3_5ForConditionalGeneration"
    found = entries(listed(tmp_path, "compressed-tensors", "ignore", ignore, tensors, architecture))
    plain, pattern = found.values()
    assert plain.run == ("language_model.model.layers.0.mlp.down_proj",)
    assert len(pattern.missed) == 2
    assert fixed(tmp_path)["ignore"][0] == plain.entry


@pytest.mark.parametrize("key", ["modules_to_not_convert", "ignored_layers"])
def test_plain_lists_get_the_name_beside(key, tmp_path):
    tensors = b.trunk() | b.mimo_head()
    names = ["model.mtp_layers.0.mlp.down_proj", "model.layers.0.mlp.down_proj"]
    listed(tmp_path, "fp8", key, names, tensors, "MiMoForCausalLM")
    assert fixed(tmp_path)[key] == [names[0], "model.layers.2.mlp.down_proj", names[1]]


def test_words_of_awq_are_looked_for_inside_names(tmp_path):
    found = entries(listed(tmp_path, "awq", "modules_to_not_convert", ["self_attn", "mlp.gate"]))
    assert len(found["self_attn"].run) == 4
    assert judged(tmp_path).split == (
        "model.layers.0.mlp.gate_up_proj",
        "model.layers.1.mlp.gate_up_proj",
    )


def test_gptq_does_not_ask_for_parts(tmp_path):
    dynamic = {r"-:.*[qkv]_proj": {}, r"+:.*down_proj": {"bits": 8}}
    listed(tmp_path, "gptq", "dynamic", dynamic)
    (one,) = judged(tmp_path).entries
    # What vLLM matches is qkv_proj, of which v_proj is the end.
    assert (one.missed, len(one.run)) == ((), 2)


def test_gptq_patterns_of_parts_are_fixed_in_their_table(tmp_path):
    dynamic = {r"-:.*\.[qkv]_proj": {}, r"+:.*down_proj": {"bits": 8}}
    listed(tmp_path, "gptq", "dynamic", dynamic)
    (one,) = judged(tmp_path).entries
    assert len(one.missed) == 2
    table = fixed(tmp_path)["dynamic"]
    assert list(table)[1] == r"+:.*down_proj"
    assert next(iter(table)).startswith(r"-:.*\.[qkv]_proj|")


def test_a_method_that_is_not_known_has_no_lists(tmp_path):
    listed(tmp_path, "some_new", "ignore", ["x"])
    assert b.look_at(tmp_path).judged == ()


def test_the_config_is_kept_and_never_twice_the_same(tmp_path):
    b.v4(tmp_path, ["mtp.0.e_proj"])
    (tmp_path / "config.json.orig").write_text("somebody's own")
    before = (tmp_path / "config.json").read_bytes()
    assert fix_lists(tmp_path, b.look_at(tmp_path).judged).name == "config.json.orig.2"
    assert (tmp_path / "config.json.orig").read_text() == "somebody's own"
    assert (tmp_path / "config.json.orig.2").read_bytes() == before
    assert fix_lists(tmp_path, b.look_at(tmp_path).judged) is None
    names = {path.name for path in tmp_path.iterdir()}
    assert not any(name.startswith(".") for name in names)


def test_a_config_that_is_a_link_is_replaced_and_not_written_through(tmp_path):
    blobs = b.v4(tmp_path / "blobs", ["mtp.0.e_proj"])
    before = (blobs / "config.json").read_bytes()
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)
    fixed(snapshot)
    assert (blobs / "config.json").read_bytes() == before


def test_many_experts_become_one_short_pattern():
    tensors = b.trunk()
    for layer in range(4):
        for expert in range(64):
            tensors[f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"] = b.matrix()
    names = [name.removesuffix(".weight") for name in tensors if ".experts." in name]
    wanted = [name for name in names if name.startswith(("model.layers.1.", "model.layers.2."))]
    pattern = pattern_for(wanted, names)
    assert pattern == r"model\.layers\.(?:1|2)\.mlp\.experts\.\d+\.up_proj"


NAMES = [f"a.{i}.{part}.{j}.w" for i in range(3) for j in range(3) for part in "bc"]


@given(st.sets(st.sampled_from([*NAMES, "head", "a.x.w", "a.0"]), min_size=1))
def test_a_pattern_fits_what_it_is_for_and_nothing_else(wanted):
    known = [*NAMES, "head", "a.x.w", "a.0"]
    pattern = re.compile(f"(?:{pattern_for(wanted, known)})$")
    assert {name for name in known if pattern.match(name)} == wanted


def test_plain_lists_need_the_parts_before_0_24(tmp_path):
    fused = [f"{ATTENTION}.qkv_proj"]
    (one,) = judged(listed(tmp_path, "fp8", "modules_to_not_convert", fused)).entries
    assert (one.disk, one.run) == ((), ())
    parts = [f"{ATTENTION}.{part}_proj" for part in "qkv"]
    found = judged(listed(tmp_path, "fp8", "modules_to_not_convert", parts))
    assert found.clean
    assert {one.run for one in found.entries} == {tuple(fused)}
