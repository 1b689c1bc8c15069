"""Checkpoints that people reported, with their names and dtypes, and the clean twin of each."""

from __future__ import annotations

import json
import re

import pytest

from tests.checkpoint import builders as b
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.inspection import inspect
from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.module_pattern import list_entry, regular_expression
from vpatch.checkpoint.report import inspection_lines
from vpatch.checkpoint.tokenizer import Tokenizer

ATTENTION = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


def findings(folder):
    found = findings_of(b.look_at(folder), Tokenizer(None), None)
    return {one.kind: one for one in found}


def faults(folder):
    return {kind: one for kind, one in findings(folder).items() if one.fault}


def text(folder):
    lines = inspection_lines(inspect(FolderFiles(folder)), Tokenizer(None), ())
    return "\n".join(line.text for line in lines)


PARAMETERS = {
    "nvfp4": {
        "weight": ("U8", (8, 4)), "weight_scale": ("F8_E4M3", (8, 1)),
        "weight_scale_2": ("F32", ()), "input_scale": ("F32", ()),
    },
    "int4": {
        "weight_packed": ("I32", (8, 1)), "weight_scale": ("BF16", (8, 1)),
        "weight_shape": ("I64", (2,)),
    },
    "gptq": {"qweight": ("I32", (1, 8)), "qzeros": ("I32", (1, 1)), "scales": ("F16", (1, 8))},
    "fp8": {"weight": ("F8_E4M3", (8, 8)), "weight_scale_inv": ("F32", (1, 1))},
    "int8": {
        "weight": ("I8", (8, 8)), "weight_scale": ("F32", (8, 1)), "weight_offset": ("F32", (8, 1)),
    },
    "bnb": {
        "weight": ("U8", (32, 1)), "weight.absmax": ("U8", (1,)),
        "weight.quant_map": ("F32", (16,)),
        "weight.quant_state.bitsandbytes__nf4": ("U8", (90,)),
    },
}  # fmt: skip


def packed(name, kind):
    """Return the tensors of a quantised module, as the tool of `kind` names them."""
    parameters = PARAMETERS.get(kind) or {"weight": b.matrix(kind)}
    return {f"{name}.{parameter}": tensor for parameter, tensor in parameters.items()}


def quantised(tensors, kind, *names):
    """Return tensors with some modules quantised: those whose names end so."""
    changed = {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        is_meant = name.endswith(".weight") and module.endswith(names)
        changed |= packed(module, kind) if is_meant else {name: tensor}
    return changed


def glue(start, *matrices, norm="shared_head.norm"):
    """Return what joins an MTP layer to the trunk, as DeepSeek names it, and further matrices."""
    tensors = {f"{start}.{name}.weight": b.NORM for name in ("enorm", "hnorm", norm)}
    return tensors | {f"{start}.{name}.weight": b.matrix() for name in ("eh_proj", *matrices)}


# --- GLM-5.1 NVFP4: the head is BF16, and exclude_modules has lm_head alone


def glm_layer(start):
    tensors = {f"{start}.{n}layernorm.weight": b.NORM for n in ("input_", "post_attention_")}
    tensors |= {f"{start}.self_attn.{name}.weight": b.matrix() for name in ATTENTION}
    for who in ("experts.0", "experts.1", "shared_experts"):
        tensors |= {f"{start}.mlp.{who}.{name}.weight": b.matrix() for name in MLP}
    return tensors | {f"{start}.mlp.gate.weight": b.matrix()}


def glm(folder, excluded, *, head="BF16", hf_file=False, trunk="nvfp4"):
    tensors = {"model.embed_tokens.weight": b.matrix(), "lm_head.weight": b.matrix()}
    for number in range(2):
        layer = glm_layer(f"model.layers.{number}")
        tensors |= quantised(layer, trunk, *ATTENTION, *MLP)
    layer = glm_layer("model.layers.2")
    tensors |= layer if head == "BF16" else quantised(layer, head, *ATTENTION, *MLP)
    tensors |= glue("model.layers.2")
    config = b.config_of(
        "GlmMoeDsaForCausalLM", model_type="glm_moe_dsa", num_nextn_predict_layers=1
    )
    settings = {"quant_algo": "NVFP4", "group_size": 16}
    if hf_file:
        b.write_checkpoint(folder, config, tensors)
        whole = {"producer": {"name": "modelopt"}, "quantization": settings}
        settings["exclude_modules"] = excluded
        (folder / "hf_quant_config.json").write_text(json.dumps(whole))
        return folder
    method = {"quant_method": "modelopt", "ignore": excluded, **settings}
    return b.write_checkpoint(folder, config | {"quantization_config": method}, tensors)


@pytest.mark.parametrize("hf_file", [True, False], ids=["file", "config"])
def test_glm_nvfp4_with_a_head_that_is_not_excluded(hf_file, tmp_path):
    found = faults(glm(tmp_path, ["lm_head"], hf_file=hf_file))
    assert list(found) == ["mtp-format"]
    one = found["mtp-format"]
    assert one.what.startswith("the MTP head is BF16, and the quantisation config covers it")
    assert "model.layers.2.mlp.experts.1.up_proj" in one.modules
    assert len(one.modules) == 4 + 2 + 6  # q_a_proj and kv_a_proj_with_mqa are one, as gate and up
    assert one.pattern == r"model\.layers\.2\..*"
    key = "exclude_modules" if hf_file else "ignore"
    assert 'add "model.layers.2.*" to ' in one.hint
    assert one.hint.endswith(key)


@pytest.mark.parametrize(
    "entry", ["model.layers.2*", "model.layers.2.*", "*layers.2.*", "model.layers.2.", "layers.2*"]
)
def test_glm_nvfp4_with_an_excluded_head(entry, tmp_path):
    folder = glm(tmp_path, ["lm_head", entry])
    assert faults(folder) == {}
    assert findings(folder)["mtp-format-differs"].what.endswith("as the quantisation config says")


def test_glm_nvfp4_whose_quantised_head_is_excluded(tmp_path):
    found = faults(glm(tmp_path, ["lm_head", "model.layers.2*"], head="nvfp4"))
    assert list(found) == ["quantised-left-out"]
    assert "of the MTP head are quantised" in found["quantised-left-out"].what
    assert len(found["quantised-left-out"].modules) == 12


def test_glm_nvfp4_whose_head_is_quantised_as_well(tmp_path):
    assert faults(glm(tmp_path, ["lm_head"], head="nvfp4")) == {}


def test_a_list_that_names_each_layer_of_the_trunk_and_forgets_the_head(tmp_path):
    names = [f"model.layers.{n}.self_attn*" for n in range(2)]
    folder = glm(tmp_path, ["lm_head", *names], trunk="nvfp4")
    config = json.loads((folder / "config.json").read_text())
    tensors = {"model.embed_tokens.weight": b.matrix(), "lm_head.weight": b.matrix()}
    for number in range(3):
        tensors |= quantised(glm_layer(f"model.layers.{number}"), "nvfp4", *MLP)
    tensors |= glue("model.layers.2")
    b.write_checkpoint(folder, config, tensors)
    found = faults(folder)
    assert list(found) == ["mtp-format"]
    assert set(found["mtp-format"].modules) == {
        f"model.layers.2.self_attn.{name}"
        for name in ("fused_qkv_a_proj", "q_b_proj", "kv_b_proj", "o_proj")
    }
    config["quantization_config"]["ignore"] += ["model.layers.2.self_attn*"]
    b.write_checkpoint(folder, config, tensors)
    assert faults(folder) == {}


# --- Step-3.7 NVFP4: the head is in exclude_modules


def step(folder, excluded):
    tensors = b.trunk()
    tensors = quantised(tensors, "nvfp4", "q_proj", "k_proj", "v_proj", "o_proj", *MLP)
    start = "model.layers.2"
    tensors |= b.dense(start)
    tensors |= glue(start, "transformer.shared_head.output", norm="transformer.shared_head.norm")
    sizes = {"hidden_size": b.HIDDEN, "num_hidden_layers": 2, "num_nextn_predict_layers": 1}
    config = {
        "architectures": ["Step3p7ForConditionalGeneration"],
        "model_type": "step3p7",
        "text_config": sizes,
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "group_size": 16,
            "exclude_modules": excluded,
        },
    }
    return b.write_checkpoint(folder, config, tensors)


def test_step_nvfp4_with_its_head_excluded(tmp_path):
    folder = step(tmp_path, ["lm_head", "model.layers.2*"])
    assert faults(folder) == {}
    lines = text(folder)
    assert "0.27.0 or later runs its MTP" in lines
    assert "0.23.0 to 0.26.0 do not: they ask the config about shared_head.head by no name" in lines


def test_step_nvfp4_with_its_head_covered(tmp_path):
    found = faults(step(tmp_path, ["lm_head"]))
    assert list(found) == ["mtp-format"]
    assert "model.layers.2.mtp_block.self_attn.qkv_proj" in found["mtp-format"].modules


def test_step_has_another_name_inside_vllm(tmp_path):
    """vLLM puts mtp_block before what a layer has, so that this entry leaves nothing out."""
    found = faults(step(tmp_path, ["lm_head", "model.layers.2.self_attn*", "model.layers.2.mlp*"]))
    assert set(found) == {"mtp-format", "ignore-names"}


# --- GLM-OCR as published


def glm_ocr(folder, prefix="model.language_model."):
    tensors = b.trunk(prefix=f"{prefix}layers")
    start = f"{prefix}layers.2"
    tensors |= b.dense(start)
    tensors |= glue(start, "shared_head.head", "embed_tokens")
    sizes = {"hidden_size": b.HIDDEN, "num_hidden_layers": 2, "num_nextn_predict_layers": 1}
    config = {
        "architectures": ["GlmOcrForConditionalGeneration"],
        "model_type": "glm_ocr",
        "text_config": sizes,
    }
    return b.write_checkpoint(folder, config, tensors)


def test_glm_ocr_as_published(tmp_path):
    folder = glm_ocr(tmp_path)
    assert faults(folder) == {}
    lines = text(folder)
    assert "0.20.0 to 0.25.1 and 0.30.0 or later run its MTP" in lines
    assert "0.26.0 to 0.29.0 do not: they read no MTP tensor that begins with" in lines


def test_glm_ocr_with_the_names_of_a_text_model(tmp_path):
    assert "0.20.0 or later runs its MTP" in text(glm_ocr(tmp_path, "model."))


# --- AutoRound with extra_config


def auto_round(folder, extra, **keys):
    tensors = quantised(b.trunk(), "gptq", *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    config = b.config_of("Qwen3NextForCausalLM", num_nextn_predict_layers=1)
    method = {
        "quant_method": "auto-round",
        "bits": 4,
        "group_size": 128,
        "packing_format": "auto_round:auto_gptq",
        "extra_config": extra,
        **keys,
    }
    whole = config | {"quantization_config": method}
    return b.write_checkpoint(folder, whole, tensors | b.qwen_head())


FLOAT = {"bits": 16, "data_type": "float"}
HEAD = [f"mtp.layers.0.mlp.{name}" for name in MLP] + [
    f"mtp.layers.0.self_attn.{name}_proj" for name in "qkvo"
]


def test_auto_round_with_the_head_in_extra_config(tmp_path):
    folder = auto_round(tmp_path, dict.fromkeys([*HEAD, "mtp.fc"], FLOAT))
    assert faults(folder) == {}
    assert findings(folder)["mtp-format-differs"].what.endswith("as the quantisation config says")


def test_auto_round_with_a_pattern_for_the_head(tmp_path):
    assert faults(auto_round(tmp_path, {r"mtp\..*": FLOAT})) == {}


def test_auto_round_with_the_head_outside_its_blocks(tmp_path):
    assert faults(auto_round(tmp_path, {}, block_name_to_quantize="model.layers")) == {}


def test_auto_round_with_few_bits_for_the_head_outside_its_blocks(tmp_path):
    tensors = quantised(b.qwen_head(), "gptq", *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    folder = auto_round(
        tmp_path, {r"mtp\.layers\..*": {"bits": 8}}, block_name_to_quantize="model.layers"
    )
    config = json.loads((folder / "config.json").read_text())
    trunk = quantised(b.trunk(), "gptq", *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    b.write_checkpoint(folder, config, trunk | tensors)
    assert faults(folder) == {}


def test_auto_round_that_forgets_fc(tmp_path):
    found = faults(auto_round(tmp_path, dict.fromkeys(HEAD, FLOAT)))
    assert list(found) == ["mtp-format"]
    assert found["mtp-format"].modules == ("mtp.fc",)
    assert found["mtp-format"].pattern == r"mtp\.fc$"


def test_auto_round_whose_entry_has_few_bits(tmp_path):
    """The first entry that fits counts."""
    found = faults(auto_round(tmp_path, {r"mtp\..*": {"bits": 8}, r"mtp\.layers\..*": FLOAT}))
    assert len(found["mtp-format"].modules) == 5


# --- A head in W4A16, and fc alone is covered and BF16


def w4a16(folder, ignore, *, head="int4", fc="BF16", method="compressed-tensors"):
    tensors = quantised(b.trunk(), "int4", *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    mtp = quantised(b.qwen_head(), head, *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    del mtp["mtp.fc.weight"]
    tensors |= mtp | packed("mtp.fc", fc)
    group = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    settings = {
        "quant_method": method,
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": group}},
        "ignore": ignore,
    }
    nested = {"num_hidden_layers": 2, "hidden_size": b.HIDDEN, "mtp_num_hidden_layers": 1}
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": nested,
        "quantization_config": settings,
    }
    return b.write_checkpoint(folder, config, tensors)


@pytest.mark.parametrize("method", ["compressed-tensors", "compressed_tensors"])
def test_a_w4a16_head_with_fc_alone_covered(method, tmp_path):
    found = faults(w4a16(tmp_path, ["lm_head"], method=method))
    assert list(found) == ["mtp-format"]
    one = found["mtp-format"]
    assert one.what.startswith("1 module of the MTP head is BF16, and the quantisation config")
    assert one.modules == ("mtp.fc",)
    assert one.hint == 'add "mtp.fc" to quantization_config.ignore'


@pytest.mark.parametrize("entry", ["mtp.fc", r"re:.*mtp\.fc.*"])
def test_a_w4a16_head_with_fc_left_out(entry, tmp_path):
    assert faults(w4a16(tmp_path, ["lm_head", entry])) == {}


def test_a_w4a16_head_that_the_config_leaves_out(tmp_path):
    found = faults(w4a16(tmp_path, ["lm_head", "re:mtp.*"]))
    assert list(found) == ["quantised-left-out"]
    assert found["quantised-left-out"].pattern == r"mtp\.layers\.0\..*"


def test_a_quantised_output_head_that_no_target_names(tmp_path):
    folder = w4a16(tmp_path, ["mtp.fc"])
    config = json.loads((folder / "config.json").read_text())
    tensors = {n: t for n, t, _ in b.look_at(folder).checkpoint.tensors()}
    shapes = {n: (t.dtype, t.shape) for n, t in tensors.items()} | packed("lm_head", "int4")
    del shapes["lm_head.weight"]
    b.write_checkpoint(folder, config, shapes)
    assert list(faults(folder)) == ["head-format"]
    config["quantization_config"]["config_groups"]["group_0"]["targets"].append("re:.*lm_head")
    b.write_checkpoint(folder, config, shapes)
    assert faults(folder) == {}


# --- experts in one tensor, whose name does not end in weight


def experts(folder, ignore):
    tensors = b.trunk() | b.qwen_head()
    for start in ("model.layers.0", "model.layers.1"):
        for number in range(2):
            for name in MLP:
                tensors |= packed(f"{start}.mlp.experts.{number}.{name}", "fp8")
    tensors["mtp.layers.0.mlp.experts.gate_up_proj"] = ("BF16", (2, 16, 8))
    tensors["mtp.layers.0.mlp.experts.down_proj"] = ("BF16", (2, 8, 8))
    config = b.config_of("Qwen3NextForCausalLM", num_nextn_predict_layers=1)
    method = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    method["weight_block_size"] = [128, 128]
    return b.write_checkpoint(
        folder, config | {"quantization_config": method | {"modules_to_not_convert": ignore}},
        tensors,
    )  # fmt: skip


def test_experts_in_one_tensor_that_the_list_names(tmp_path):
    folder = experts(tmp_path, ["mtp.fc", "mtp.layers.0.mlp.experts"])
    assert "mtp-incomplete" not in faults(folder)
    assert "mtp.layers.0.mlp.experts.gate_up_proj" in b.look_at(folder).mtp_modules


def test_experts_in_one_tensor_that_the_list_forgets(tmp_path):
    found = faults(experts(tmp_path, ["mtp.fc"]))
    assert list(found) == ["mtp-format"]
    names = {f"mtp.layers.0.mlp.experts.{name}" for name in ("gate_up_proj", "down_proj")}
    assert set(found["mtp-format"].modules) == names


def test_more_layers_than_vllm_takes(tmp_path):
    folder = glm(tmp_path, ["lm_head", "model.layers.2*"])
    config = json.loads((folder / "config.json").read_text())
    tensors = {n: (t.dtype, t.shape) for n, t, _ in b.look_at(folder).checkpoint.tensors()}
    further = {n.replace("layers.2.", "layers.3."): t for n, t in tensors.items() if ".2." in n}
    assert "mtp-unread" not in findings(folder)
    b.write_checkpoint(folder, config, tensors | further)
    assert "does not read" in findings(folder)["mtp-unread"].what


# --- methods that decide by the tensors, and methods that vpatch does not know


def by_method(folder, method, kind="gptq", head=None, **keys):
    tensors = quantised(b.trunk(), kind, *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    whole = config | {"quantization_config": {"quant_method": method, **keys}}
    return b.write_checkpoint(folder, whole, tensors | (head or b.mimo_head()))


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_a_method_for_which_vllm_reads_the_dtypes(method, tmp_path):
    folder = by_method(tmp_path, method, bits=4, group_size=128)
    assert faults(folder) == {}
    assert "as the quantisation config says" not in findings(folder)["mtp-format-differs"].what


def test_gptq_with_a_list_of_what_is_quantised(tmp_path):
    blocks = [["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]]
    folder = by_method(tmp_path, "gptq", bits=4, modules_in_block_to_quantize=blocks)
    assert faults(folder)["mtp-format"].modules == ("model.layers.2.self_attn.qkv_proj",)


@pytest.mark.parametrize("method", ["cpu_awq", "never_heard_of"])
def test_a_method_that_is_not_understood(method, tmp_path):
    folder = by_method(tmp_path, method, ignore=["lm_head"])
    assert faults(folder) == {}
    notes = findings(folder)
    assert method in notes["method-unknown"].what
    assert "as the quantisation config says" not in notes["mtp-format-differs"].what


@pytest.mark.parametrize("model", ["BailingMoeV3ForCausalLM", "GlmMoeDsaForCausalLM"])
def test_a_model_that_compares_the_list_of_fp8_in_its_own_way(model, tmp_path):
    """A BailingMoeV3 looks for an entry at the end of a name, and others for the whole name."""
    folder = glm(tmp_path, [], trunk="fp8", head="fp8")
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [model]
    config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic"} | {
        "ignored_layers": ["eh_proj"]
    }
    (folder / "config.json").write_text(json.dumps(config))
    own = model.startswith("Bailing")
    assert faults(folder) == {}
    assert ("patterns for" in text(folder) or "1 pattern for" in text(folder)) is not own
    notes = findings(folder)
    assert ("method-unknown" in notes) is own
    if own:
        assert f"of the method fp8 in a {model}: it compares" in notes["method-unknown"].what


KNOWN = [
    ("quark", "fp8", {"exclude": ["re:model.layers.2.*"]}),
    ("fp8", "fp8", {"ignored_layers": ["{}"], "activation_scheme": "dynamic"}),
    ("modelopt", "nvfp4", {"quant_algo": "NVFP4", "ignore": ["model.layers.2*"]}),
    ("bitsandbytes", "bnb", {"load_in_4bit": True, "llm_int8_skip_modules": ["model.layers.2"]}),
    ("awq", "gptq", {"bits": 4, "modules_to_not_convert": ["layers.2."]}),
    ("gptq", "gptq", {"bits": 4, "dynamic": {r"-:model\.layers\.2\..*": {}}}),
    ("auto-round", "gptq", {"bits": 4, "extra_config": {r"model\.layers\.2\..*": FLOAT}}),
]
RUN_TIME = [
    f"model.layers.2.{name}"
    for name in (
        *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
        *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    )
]


@pytest.mark.parametrize(("method", "kind", "keys"), KNOWN, ids=[one[0] for one in KNOWN])
def test_each_method_by_its_own_matching(method, kind, keys, tmp_path):
    whole = {k: RUN_TIME if v == ["{}"] else v for k, v in keys.items()}
    folder = by_method(tmp_path / "clean", method, kind, **whole)
    assert faults(folder) == {}, method
    assert "as the quantisation config says" in findings(folder)["mtp-format-differs"].what
    lists = ("exclude", "ignore", "ignored_layers", "llm_int8_skip_modules", "extra_config")
    bare = {k: v for k, v in keys.items() if k not in lists}
    covered = by_method(tmp_path / "covered", method, kind, **bare)
    if method not in {"awq", "gptq"}:
        assert list(faults(covered)) == ["mtp-format"], method
    head = quantised(b.mimo_head(), kind, *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    wrong = by_method(tmp_path / "wrong", method, kind, head=head, **whole)
    assert list(faults(wrong)) == ["quantised-left-out"], method


# --- ModelSlim's table


def modelslim(folder, kinds):
    tensors = quantised(b.trunk(), "int8", *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    tensors |= b.mimo_head()
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    b.write_checkpoint(folder, config, tensors)
    own = [n.removesuffix(".weight") for n in tensors if n.endswith(".weight")]
    table = {
        f"{name}.weight": kinds(name) if tensors[f"{name}.weight"][0] == "BF16" else "W8A8_DYNAMIC"
        for name in own
    }
    described = {"model_quant_type": "W8A8_DYNAMIC", "version": "1.0.0", **table}
    (folder / "quant_model_description.json").write_text(json.dumps(described))
    return folder


def test_modelslim_and_its_table(tmp_path):
    folder = modelslim(tmp_path, lambda _: "FLOAT")
    assert faults(folder) == {}
    assert "quantisation  modelslim, W8A8_DYNAMIC" in text(folder)
    assert "vllm-ascend reads it" in findings(folder)["modelslim"].what


def test_modelslim_with_a_head_that_the_table_calls_quantised(tmp_path):
    folder = modelslim(tmp_path, lambda name: "W8A8_DYNAMIC" if "mtp" in name else "FLOAT")
    assert list(faults(folder)) == ["mtp-format"]


# --- what is special in one method or model


def mxfp4(folder, *linear):
    """Write a checkpoint whose experts are MXFP4, as are the linear layers whose names end so."""
    tensors = quantised(b.trunk(), "int4", *linear) | b.mimo_head()
    for start in ("model.layers.0", "model.layers.1", "model.mtp_layers.0"):
        for name in ("gate_up_proj", "down_proj"):
            tensors[f"{start}.mlp.experts.{name}_blocks"] = ("U8", (2, 8, 4))
            tensors[f"{start}.mlp.experts.{name}_scales"] = ("U8", (2, 8))
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    config["quantization_config"] = {"quant_method": "mxfp4"}
    return b.write_checkpoint(folder, config, tensors)


def test_mxfp4_is_for_experts_alone(tmp_path):
    assert faults(mxfp4(tmp_path / "clean")) == {}
    found = faults(mxfp4(tmp_path / "wrong", "o_proj"))
    assert list(found) == ["quantised-left-out"]
    assert "the method does not cover them" in found["quantised-left-out"].what
    assert len(found["quantised-left-out"].modules) == 2


def with_experts(folder, method, kind, **keys):
    """Write a checkpoint whose attention and experts are quantised."""
    tensors = {name: one for name, one in b.trunk().items() if ".mlp." not in name}
    for start in ("model.layers.0", "model.layers.1"):
        tensors |= {f"{start}.mlp.experts.{n}.{m}.weight": b.matrix() for n in (0, 1) for m in MLP}
    tensors = quantised(tensors, kind, *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    config = b.config_of(
        "Qwen3MoeForCausalLM", quantization_config={"quant_method": method, **keys}
    )
    return b.write_checkpoint(folder, config, tensors)


ATTENTION_PARTS = [f"self_attn.{name}_proj" for name in "qkvo"]


def test_gptq_asks_its_list_of_what_is_quantised_about_no_experts(tmp_path):
    keys = {"bits": 4, "modules_in_block_to_quantize": [ATTENTION_PARTS]}
    assert faults(with_experts(tmp_path, "gptq", "gptq", **keys)) == {}


def test_a_list_is_not_blamed_for_what_its_method_does_not_cover(tmp_path):
    keys = {
        "modules_to_not_convert": ["lm_head", *(f"model.layers.0.{n}" for n in ATTENTION_PARTS)]
    }
    found = findings_of(
        b.look_at(with_experts(tmp_path, "fbgemm_fp8", "fp8", **keys)), Tokenizer(None), None
    )
    by_list, by_method = [one for one in found if one.kind == "quantised-left-out"]
    assert "quantization_config.modules_to_not_convert leaves them out" in by_list.what
    assert by_list.modules == tuple(f"model.layers.0.self_attn.{n}_proj" for n in ("qkv", "o"))
    assert "the method does not cover them" in by_method.what
    assert "modules_to_not_convert" not in by_method.hint
    assert all(".experts." in name for name in by_method.modules)


def test_bitsandbytes_asks_its_list_about_no_experts(tmp_path):
    keys = {"load_in_4bit": True, "llm_int8_skip_modules": ["model.layers.0.mlp.experts"]}
    assert faults(with_experts(tmp_path, "bitsandbytes", "bnb", **keys)) == {}


def test_the_scale_of_a_matrix_of_8_bits_by_bitsandbytes(tmp_path):
    tensors = b.trunk() | b.mimo_head()
    for name in ("model.layers.0.mlp.up_proj", "model.mtp_layers.0.mlp.up_proj"):
        tensors |= {f"{name}.weight": ("I8", (8, 8)), f"{name}.SCB": ("F32", (8,))}
    config = b.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    b.write_checkpoint(tmp_path, config, tensors)
    assert b.look_at(tmp_path).mtp.lacking == ()


def test_the_key_that_names_what_is_quantised_leaves_the_rest_out(tmp_path):
    head = quantised(b.mimo_head(), "gptq", *MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    keys = {"bits": 4, "modules_in_block_to_quantize": [["self_attn", "mlp.gate_proj", "mlp.up"]]}
    found = faults(by_method(tmp_path, "gptq", head=head, **keys))
    assert list(found) == ["quantised-left-out"]
    one = found["quantised-left-out"]
    assert "quantization_config.modules_in_block_to_quantize leaves them out" in one.what
    assert one.hint == "name them in quantization_config.modules_in_block_to_quantize"
    assert all(name.endswith("mlp.down_proj") for name in one.modules)


def test_the_shared_head_of_step_has_its_name_in_vllm(tmp_path):
    names = b.look_at(step(tmp_path, [])).run_time_names
    disk = "model.layers.2.transformer.shared_head.output"
    assert names[disk] == "model.layers.2.shared_head.head"


@pytest.mark.parametrize(("algorithm", "covered"), [("NVFP4", False), ("FP8", True)])
def test_vllm_leaves_fc_of_qwen_unquantised_under_nvfp4_whatever_the_list_says(
    algorithm, covered, tmp_path
):
    layers = (*MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    tensors = quantised(b.trunk(), "nvfp4", *layers) | quantised(b.qwen_head(), "nvfp4", *layers)
    config = b.config_of("Qwen3NextForCausalLM", num_nextn_predict_layers=1)
    method = {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["lm_head"]}
    b.write_checkpoint(tmp_path, config | {"quantization_config": method}, tensors)
    assert ("mtp-format" in faults(tmp_path)) is covered


@pytest.mark.parametrize(
    ("architecture", "key", "first", "kinds"),
    [
        ("Qwen3NextForCausalLM", "num_nextn_predict_layers", "0.25.0", []),
        ("Qwen3_5ForConditionalGeneration", "mtp_num_hidden_layers", "0.20.0", []),
        ("ExaoneMoeForCausalLM", "num_nextn_predict_layers", None, ["mtp-format"]),
    ],
)
def test_fc_under_nvfp4(architecture, key, first, kinds, tmp_path):
    """vllm-project/vllm#35031: a Qwen3-Next in NVFP4, whose list does not have mtp.fc."""
    layers = (*MLP, "q_proj", "k_proj", "v_proj", "o_proj")
    tensors = quantised(b.trunk(), "nvfp4", *layers) | quantised(b.qwen_head(), "nvfp4", *layers)
    config = b.config_of(architecture, **{key: 1})
    method = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
    folder = b.write_checkpoint(tmp_path, config | {"quantization_config": method}, tensors)
    assert list(faults(folder)) == kinds
    words = f"{first} or later runs its MTP" if first else "no release runs its MTP as it is"
    assert words in text(folder)


def test_experts_of_a_deepseek_v4_are_read_in_their_own_format(tmp_path):
    tensors = {"embed.weight": b.matrix(), "head.weight": b.matrix()}
    tensors |= quantised(b.v4_layer("layers.0", "BF16"), "fp8", "w1", "w2", "w3", "wq_b")
    names = ["layers.0.ffn.experts", "layers.0.ffn.experts.0.w1"]
    method = {"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": names}
    config = b.config_of("DeepseekV4ForCausalLM", 1, quantization_config=method)
    b.write_checkpoint(tmp_path, config, tensors)
    assert "quantised-left-out" not in faults(tmp_path)
    config["architectures"] = ["SomeForCausalLM"]
    b.write_checkpoint(tmp_path, config, tensors)
    assert "quantised-left-out" in faults(tmp_path)


def test_a_model_whose_names_nobody_knows(tmp_path):
    config = b.config_of("NobodysForCausalLM", num_nextn_predict_layers=1)
    b.write_checkpoint(tmp_path, config, b.trunk())
    assert faults(tmp_path) == {}
    assert "does not know how a NobodysForCausalLM names" in findings(tmp_path)["mtp-unknown"].what


@pytest.mark.parametrize(
    ("matching", "entry"),
    [
        (Matching.REGEX, r"re:(?:a\.\d+\.x|a\.1\.y)$"),
        (Matching.WILDCARD, None),
        (Matching.INSIDE, None),
    ],
)
def test_no_pattern_covers_what_it_should_not(matching, entry):
    wanted, others = ["a.1.x", "a.1.y", "a.2.x"], ["a.2.y"]
    assert list_entry(matching, wanted, others) == entry
    pattern = regular_expression(wanted, others)
    assert [n for n in wanted + others if re.match(pattern, n)] == wanted


def test_a_component_is_a_whole_one():
    entry = Entry("layers.1", Matching.COMPONENTS)
    assert entry.those(["model.layers.1.q_proj", "model.layers.11.q_proj"]) == [
        "model.layers.1.q_proj"
    ]
