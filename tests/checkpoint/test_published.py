"""Checkpoints as people publish them, by their names, dtypes and configs, and broken twins.

What is published was read in July to November 2026: in the threads that are named, and in the
configs of the exporters (ModelOpt, llm-compressor, AutoRound, GPTQModel, AutoAWQ, bitsandbytes).
"""

from __future__ import annotations

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.test_reported import MLP, faults, findings, packed, quantised, text
from vpatch.checkpoint.errors import CheckpointError

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
LINEAR = (*MLP, *ATTENTION)
NESTED = "model.language_model."
SHARED = tuple(f"shared_expert.{name}" for name in MLP)
CT_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}


def experts(start, kind, count=2, names=MLP):
    tensors = {}
    for number in range(count):
        for name in names:
            tensors |= packed(f"{start}.mlp.experts.{number}.{name}", kind)
    return tensors


def moe(start, kind, *, attention="BF16", shared="shared_expert"):
    tensors = {f"{start}.{n}layernorm.weight": b.NORM for n in ("input_", "post_attention_")}
    for name in ATTENTION:
        tensors |= packed(f"{start}.self_attn.{name}", attention)
    for name in MLP:
        tensors |= packed(f"{start}.mlp.{shared}.{name}", kind)
    tensors[f"{start}.mlp.gate.weight"] = b.matrix()
    return tensors | experts(start, kind)


def qwen_moe(kind, *, head="BF16", mtp="BF16", attention="BF16", prefix=NESTED):
    """A Qwen3.6-35B-A3B: names of the vision model, and an MTP head of experts."""
    tensors = {f"{prefix}embed_tokens.weight": b.matrix(), f"{prefix}norm.weight": b.NORM}
    tensors |= packed("lm_head", head)
    tensors["model.visual.blocks.0.attn.qkv.weight"] = b.matrix()
    for number in range(2):
        tensors |= moe(f"{prefix}layers.{number}", kind, attention=attention)
    tensors |= moe("mtp.layers.0", mtp, attention=mtp)
    norms = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    tensors |= {f"mtp.{name}.weight": b.NORM for name in norms}
    return tensors | {"mtp.fc.weight": b.matrix(columns=2 * b.HIDDEN)}


def qwen_config(method, **keys):
    sizes = {"num_hidden_layers": 2, "hidden_size": b.HIDDEN, "mtp_num_hidden_layers": 1}
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "text_config": {"model_type": "qwen3_5_moe_text", **sizes},
        "quantization_config": method,
        **keys,
    }


def dense_qwen(kind, mtp="BF16"):
    tensors = quantised(b.trunk(prefix=f"{NESTED}layers"), kind, *LINEAR)
    return tensors | quantised(b.qwen_head(), mtp, *LINEAR)


def dense_config(method):
    return qwen_config(method, architectures=["Qwen3_5ForConditionalGeneration"],
                       model_type="qwen3_5")  # fmt: skip


def deepseek(kind, *, mtp=None, shared=True, method=None, declared=1, layers=2):
    tensors = {"model.embed_tokens.weight": b.matrix(), "lm_head.weight": b.matrix()}
    tensors["model.norm.weight"] = b.NORM
    for number in range(layers):
        tensors |= moe(f"model.layers.{number}", kind, attention=kind, shared="shared_experts")
    if declared:
        start = f"model.layers.{layers}"
        tensors |= moe(start, mtp or kind, attention=mtp or kind, shared="shared_experts")
        glue = ("enorm", "hnorm", "shared_head.norm")
        tensors |= {f"{start}.{name}.weight": b.NORM for name in glue}
        matrices = ("eh_proj", *(("shared_head.head", "embed_tokens") if shared else ()))
        tensors |= {f"{start}.{name}.weight": b.matrix() for name in matrices}
    config = b.config_of("DeepseekV3ForCausalLM", layers, model_type="deepseek_v3",
                         num_nextn_predict_layers=declared)  # fmt: skip
    return tensors, config | ({"quantization_config": method} if method else {})


NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
W4A16 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": CT_INT4}},
}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
VISUAL = ["model.visual*", "re:.*visual.*"]
MTP_NAMES = [
    *(f"mtp.layers.0.self_attn.{name}" for name in ATTENTION),
    *(f"mtp.layers.0.mlp.{name}" for name in MLP),
]
GPT_OSS = b.trunk() | {
    f"model.layers.{n}.mlp.experts.{name}_{part}": ("U8", (2, 8, 4))
    for n in range(2)
    for name in ("gate_up_proj", "down_proj")
    for part in ("blocks", "scales")
}
GPT_OSS = {
    n: t for n, t in GPT_OSS.items() if not n.endswith(tuple(f"mlp.{m}.weight" for m in MLP))
}
STATIC = {
    name.replace(".weight", f".{scale}"): ("F32", ())
    for name in quantised(b.trunk(), "F8_E4M3", *LINEAR)
    if name.endswith(tuple(f"{one}.weight" for one in LINEAR))
    for scale in ("input_scale", "weight_scale")
}
SETS = {
    # vllm-project/vllm#44081, #45102: a head in NVFP4, with and without lm_head* in the list
    "qwen nvfp4 head": (qwen_moe("nvfp4", head="nvfp4"), qwen_config({**NVFP4, "ignore": [
        *VISUAL, "mtp*", f"{NESTED}layers.*.self_attn*"]}), []),
    "qwen nvfp4 head left out": (qwen_moe("nvfp4", head="nvfp4"), qwen_config({**NVFP4, "ignore": [
        "lm_head*", "mtp*", f"{NESTED}layers.*.self_attn*"]}), ["head-format"]),
    "qwen nvfp4 mtp forgotten": (qwen_moe("nvfp4"), qwen_config({**NVFP4, "ignore": [
        "lm_head", f"{NESTED}layers.*.self_attn*"]}), ["mtp-format"]),
    # vllm-project/vllm#53387: mtp.fc is BF16, and the list has the rest of the head
    "qwen w4a16 all of mtp": (dense_qwen("int4"), dense_config({**W4A16, "ignore": [
        "lm_head", *MTP_NAMES, "mtp.fc"]}), []),
    "qwen w4a16 without fc": (dense_qwen("int4"), dense_config({**W4A16, "ignore": [
        "lm_head", *MTP_NAMES]}), ["mtp-format"]),
    # Qwen/Qwen3.5-397B-A17B-GPTQ-Int4: vllm-project/vllm#48816
    "qwen gptq dynamic": (qwen_moe("gptq"), qwen_config({
        "quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True,
        "dynamic": {"-:.*attn.*": {}, "-:.*mtp.*": {}, "-:.*visual.*": {}}}), []),
    # intel/auto-round#1755: an MTP head that was copied, and extra_config without it
    "qwen auto-round with mtp": (qwen_moe("gptq"), qwen_config({
        "quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:auto_gptq",
        "extra_config": {r".*self_attn.*": {"bits": 16}, r".*visual.*": {"bits": 16}}}),
        ["mtp-format"]),
    "qwen auto-round blocks": (qwen_moe("gptq"), qwen_config({
        "quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:auto_gptq",
        "block_name_to_quantize": "model.language_model.layers",
        "extra_config": {r".*self_attn.*": {"bits": 16}}}), []),
    # Qwen's own FP8: the head is quantised, and fc is not
    "qwen fp8": (qwen_moe("fp8", mtp="fp8", attention="fp8"), qwen_config({
        **FP8, "modules_to_not_convert": ["lm_head", "mtp.fc", "model.visual.blocks.0.attn.qkv"]}),
        []),
    "qwen fp8 fc forgotten": (qwen_moe("fp8", mtp="fp8", attention="fp8"), qwen_config({
        **FP8, "modules_to_not_convert": ["lm_head"]}), ["mtp-format"]),
    # z-lab/paroquant#47: MTP is declared, and no tensor is there
    "qwen paroquant": (
        quantised(b.trunk(prefix=f"{NESTED}layers"), "gptq", *LINEAR),
        dense_config({"quant_method": "paroquant", "bits": 4}), ["mtp-dropped"]),
    "deepseek fp8": (*deepseek("fp8", method=FP8), []),
    "deepseek bf16 without shared": (*deepseek("BF16", shared=False), []),
    "deepseek nvfp4": (*deepseek("nvfp4", mtp="BF16", method={
        **NVFP4, "ignore": ["lm_head", "model.layers.2*"]}), []),
    "deepseek nvfp4 forgotten": (*deepseek("nvfp4", mtp="BF16", method={
        **NVFP4, "ignore": ["lm_head"]}), ["mtp-format"]),
    # Kimi-K2 has the architecture of DeepSeek-V3, and no MTP layers
    "kimi k2": (*deepseek("fp8", method=FP8, declared=0), []),
    "nemotron without mtp": (b.trunk(prefix="backbone.layers"), b.config_of(
        "NemotronHForCausalLM", model_type="nemotron_h"), []),
    "gpt-oss": (GPT_OSS, b.config_of("GptOssForCausalLM", quantization_config={
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        }), []),
    "llama static fp8": (b.trunk(dtype="F8_E4M3") | STATIC, b.config_of(
        "LlamaForCausalLM", quantization_config={"quant_method": "fp8",
        "activation_scheme": "static", "ignored_layers": ["lm_head"]}), []),
    "llama compressed-tensors fp8": (b.trunk(dtype="F8_E4M3") | STATIC, b.config_of(
        "LlamaForCausalLM", quantization_config={"quant_method": "compressed-tensors",
        "format": "float-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}}}), []),
    # vllm-project/llm-compressor#2735: targets that are for the trunk alone
    "qwen w4a16 by targets": (qwen_moe("int4"), qwen_config({**W4A16, "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": [
        r"re:.*language_model\.layers\.\d+\.mlp\.(experts|shared_expert)\..*",
        r"re:language_model\.model\.layers\.\d+\.mlp\.(experts|shared_expert)\..*"],
        "weights": CT_INT4}}}), []),
    "qwen w4a16 with a head that no target is for": (qwen_moe("int4", mtp="int4"), qwen_config({
        **W4A16, "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": [
        r"re:.*language_model\..*layers\.\d+\.mlp\.(experts|shared_expert)\..*"],
        "weights": CT_INT4}}}), ["quantised-left-out"]),
    "qwen mixed precision": (
        qwen_moe("nvfp4", mtp="fp8"), qwen_config({
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        f"{start}.{name}": {"quant_algo": kind}
        for start, kind, names in (
            (f"{NESTED}layers.0.mlp", "NVFP4", ("experts.0.up_proj", *SHARED)),
            (f"{NESTED}layers.1.mlp", "NVFP4", ("experts.0.up_proj", *SHARED)),
            ("mtp.layers.0.mlp", "FP8", ("experts.0.up_proj", *SHARED)),
            ("mtp.layers.0.self_attn", "FP8", ATTENTION))
        for name in names}}), []),
    "llama bnb": (quantised(b.trunk(), "bnb", *LINEAR), b.config_of(
        "LlamaForCausalLM", quantization_config={"quant_method": "bitsandbytes",
        "load_in_4bit": True, "llm_int8_skip_modules": ["lm_head"]}), []),
    "llama awq": (quantised(b.trunk(), "gptq", *LINEAR), b.config_of(
        "LlamaForCausalLM", quantization_config={"quant_method": "awq", "bits": 4,
        "group_size": 128, "zero_point": True, "modules_to_not_convert": None}), []),
}  # fmt: skip


@pytest.mark.parametrize(("tensors", "config", "kinds"), SETS.values(), ids=SETS)
def test_a_checkpoint_as_published(tensors, config, kinds, tmp_path):
    folder = b.write_checkpoint(tmp_path, config, tensors)
    assert list(faults(folder)) == kinds
    lines = text(folder)
    assert ("no release runs its MTP as it is" in lines) is (kinds == ["mtp-format"])


def test_an_output_head_in_nvfp4_needs_a_later_release(tmp_path):
    """vllm-project/vllm#44081: 0.22.0 ends with an error about lm_head.input_scale."""
    tensors, config, _ = SETS["qwen nvfp4 head"]
    note = findings(b.write_checkpoint(tmp_path, config, tensors))["head-format"]
    assert note.fault is False
    assert "releases before 0.23.0 build it unquantised" in note.what


def test_no_release_is_named_for_a_model_without_mtp(tmp_path):
    tensors, config, _ = SETS["kimi k2"]
    folder = b.write_checkpoint(tmp_path, config, tensors)
    assert "runs MTP" not in text(folder)
    assert findings(folder)["no-mtp"].hint.startswith("if the model was published with MTP layers")


def test_a_checkpoint_in_mistrals_own_format(tmp_path):
    b.write_shard(
        tmp_path / "consolidated.safetensors", {"layers.0.attention.wq.weight": b.matrix()}
    )
    (tmp_path / "params.json").write_text("{}")
    assert faults(tmp_path) == {}
    assert "--config-format mistral" in findings(tmp_path)["mistral-format"].what
    (tmp_path / "params.json").unlink()
    assert list(faults(tmp_path)) == ["no-config"]


@pytest.mark.parametrize(("target", "kinds"), [
    (r"re:.*experts\.\d+\..*", []), ("re:.*self_attn.*", ["quantised-left-out"]),
])  # fmt: skip
def test_experts_in_one_tensor_are_asked_about_by_the_first_one(target, kinds, tmp_path):
    name = "model.layers.0.mlp.experts.gate_up_proj"
    tensors = b.trunk() | {f"{name}_packed": ("I32", (2, 8, 1)), f"{name}_scale": ("BF16", (2, 8))}
    groups = {"group_0": {"targets": [target], "weights": CT_INT4}}
    config = b.config_of("Qwen3MoeForCausalLM", quantization_config=W4A16 | {
        "config_groups": groups, "ignore": ["lm_head"]})  # fmt: skip
    assert list(faults(b.write_checkpoint(tmp_path, config, tensors))) == kinds


def test_fp8_without_a_scheme_for_activations_is_refused(tmp_path):
    tensors = quantised(b.trunk(), "fp8", *LINEAR)
    method = {k: v for k, v in FP8.items() if k != "activation_scheme"}
    config = b.config_of("Qwen3ForCausalLM", quantization_config=method)
    found = faults(b.write_checkpoint(tmp_path, config, tensors))
    assert list(found) == ["method-refused"]
    assert "has no activation_scheme" in found["method-refused"].what
    config["quantization_config"]["activation_scheme"] = "dynamic"
    assert faults(b.write_checkpoint(tmp_path, config, tensors)) == {}


@pytest.mark.parametrize(("method", "covers"), [
    (FP8, True),
    (FP8 | {"ignored_layers": [f"model.layers.{n}.{part}" for n in range(2) for part in (
        *(f"self_attn.{name}" for name in ATTENTION), *(f"mlp.{name}" for name in MLP))]}, False),
    (W4A16, True),
    # A KV cache alone is quantised.
    ({"quant_method": "compressed-tensors", "config_groups": {}, "ignore": []}, False),
    ({"quant_method": "modelopt", "quant_algo": None, "kv_cache_quant_algo": "FP8"}, False),
    # It quantises while vLLM loads.
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, False),
])  # fmt: skip
def test_a_config_that_came_with_unquantised_tensors(method, covers, tmp_path):
    """As a dequantised or fine-tuned checkpoint has it that kept its quantization_config."""
    config = b.config_of("LlamaForCausalLM", quantization_config=method)
    found = faults(b.write_checkpoint(tmp_path, config, b.trunk()))
    assert ("nothing-quantised" in found) is covers
    if covers:
        assert len(found["nothing-quantised"].modules) == 14
    tensors = quantised(b.trunk(), "fp8", *LINEAR)
    assert "nothing-quantised" not in faults(b.write_checkpoint(tmp_path, config, tensors))


def test_quantisation_in_the_config_of_a_language_model(tmp_path):
    """OpenGVLab's AWQ checkpoints: vLLM reads llm_config as text_config."""
    tensors = quantised(b.trunk(), "gptq", *LINEAR)
    tensors = {f"language_model.{name}": tensor for name, tensor in tensors.items()}
    method = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    inner = {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": b.HIDDEN}
    config = {"architectures": ["InternVLChatModel"], "model_type": "internvl_chat"}
    config["llm_config"] = inner | {"quantization_config": method}
    folder = b.write_checkpoint(tmp_path, config, tensors)
    assert faults(folder) == {}
    assert b.look_at(folder).quantisation.method == "awq"
    del config["llm_config"]["quantization_config"]
    assert "quantised-without-config" in faults(b.write_checkpoint(tmp_path, config, tensors))


def test_shards_that_are_numbered_and_not_there(tmp_path):
    """A download that was cut off before its index came."""
    names = list(b.trunk())
    shards = {
        f"model-0000{n}-of-00003.safetensors": {name: b.trunk()[name] for name in names[n::3]}
        for n in (1, 2, 3)
    }
    config = b.config_of("LlamaForCausalLM")
    assert faults(b.write_checkpoint(tmp_path, config, shards, index=False)) == {}
    (tmp_path / "model-00003-of-00003.safetensors").unlink()
    (tmp_path / "model-00001-of-00003.safetensors").unlink()
    lost = faults(tmp_path)["missing-shard"].what
    assert lost.startswith("2 shards of 3 not there, such as model-00001-of-00003.safetensors")


def test_a_pointer_of_git_lfs(tmp_path):
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM"), b.trunk())
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    with pytest.raises(CheckpointError, match="a pointer of Git LFS"):
        b.look_at(tmp_path)


@pytest.mark.parametrize(("architecture", "pools", "drafts"), [
    ("Qwen3ForCausalLM", False, True),
    ("Qwen3ForCausalLM", True, False),
    ("BertModel", False, False),
    ("Qwen3ForSequenceClassification", False, False),
    ("InternVLChatModel", False, True),
])  # fmt: skip
def test_nothing_is_drafted_for_a_model_that_does_not_generate(
    architecture, pools, drafts, tmp_path
):
    b.write_checkpoint(tmp_path, b.config_of(architecture), b.trunk())
    if pools:
        (tmp_path / "modules.json").write_text("[]")
    hint = findings(tmp_path)["no-mtp"].hint
    assert ("ngram" in (hint or "")) is drafts


def test_the_head_of_a_model_that_vpatch_does_not_know_lacks_nothing(tmp_path):
    """inclusionAI/Ling-flash-2.0: final_layernorm, and no release runs its MTP."""
    head = {f"model.layers.2.{name}.weight": b.NORM for name in ("enorm", "hnorm")}
    head |= {"model.layers.2.final_layernorm.weight": b.NORM}
    head |= {"model.layers.2.eh_proj.weight": b.matrix(columns=2 * b.HIDDEN)}
    config = b.config_of("BailingMoeV2ForCausalLM", num_nextn_predict_layers=1)
    folder = b.write_checkpoint(tmp_path, config, b.trunk() | b.dense("model.layers.2") | head)
    assert faults(folder) == {}
    note = findings(folder)["mtp-unknown"]
    assert "graft" not in text(folder)
    assert "does not know how a BailingMoeV2ForCausalLM names them" in note.what


def test_the_trunk_of_a_nemotron_h_is_its_backbone(tmp_path):
    """nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4: names begin with backbone."""
    trunk = {"backbone.embeddings.weight": b.matrix(), "lm_head.weight": b.matrix()}
    for name in ("up_proj", "down_proj"):
        trunk |= packed(f"backbone.layers.0.mixer.{name}", "nvfp4")
    config = b.config_of("NemotronHForCausalLM", 1, quantization_config=NVFP4 | {"ignore": []})
    assert b.look_at(b.write_checkpoint(tmp_path, config, trunk)).formats(mtp=False)


def test_files_in_mistrals_own_format_beside_others(tmp_path):
    """mistralai's repositories: vLLM takes params.json and consolidated files where it has both."""
    config = b.config_of("MistralForCausalLM")
    b.write_checkpoint(tmp_path, config, {"model-00001-of-00001.safetensors": b.trunk()})
    b.write_shard(tmp_path / "consolidated.safetensors", {"norm.weight": b.NORM})
    assert "unlisted-shards" in findings(tmp_path)
    (tmp_path / "params.json").write_text("{}")
    seen = findings(tmp_path)
    assert "unlisted-shards" not in seen
    assert "--config-format hf" in seen["mistral-format"].what
    # Without an index too, the same tensors are not looked at twice.
    (tmp_path / "model.safetensors.index.json").unlink()
    assert "norm.weight" not in b.look_at(tmp_path).checkpoint.names()
    assert findings(tmp_path).keys() == seen.keys()


@pytest.mark.parametrize(("dynamic", "covered"), [
    ({"-:.*attn.*": {}, "-:.*mtp.*": {}}, False), ({"-:.*attn.*": {}}, True),
])  # fmt: skip
def test_gptq_asks_its_dynamic_list_alone_about_experts(dynamic, covered, tmp_path):
    """vllm-project/vllm#39475: vLLM goes by the tensors for linear layers, and not for experts."""
    method = {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic}
    tensors = qwen_moe("gptq")
    found = faults(b.write_checkpoint(tmp_path, qwen_config(method), tensors))
    assert list(found) == (["mtp-format"] if covered else [])
    if covered:
        assert {name.partition(".experts.")[0] for name in found["mtp-format"].modules} == {
            "mtp.layers.0.mlp"
        }


@pytest.mark.parametrize(("architecture", "name", "kinds"), [
    ("Phi4MMForCausalLM", "model.layers.0.mlp.up_proj.lora_A.vision.weight", []),
    ("Phi4MMForCausalLM", "model.layers.0.mlp.up_proj.base_layer.weight", []),
    ("XLMRobertaModel", "roberta.encoder.layers.0.fc.parametrizations.weight.0.lora_A", []),
    ("LlamaForCausalLM", "model.layers.0.mlp.up_proj.lora_A.weight", ["adapter-names"]),
])  # fmt: skip
def test_models_that_are_published_with_their_adapters(architecture, name, kinds, tmp_path):
    tensors = b.trunk() | {name: b.matrix()}
    assert list(faults(b.write_checkpoint(tmp_path, b.config_of(architecture), tensors))) == kinds
