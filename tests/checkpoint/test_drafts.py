"""Drafts that are no MTP head, with the names of published ones."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.checkpoint import builders as b
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.report import inspection_lines
from vpatch.checkpoint.tokenizer import Tokenizer


def look(folder):
    inspection = b.look_at(folder)
    lines = inspection_lines(inspection, Tokenizer(None), ())
    findings = findings_of(inspection, Tokenizer(None), None)
    return inspection.draft, "\n".join(line.text for line in lines), findings


def dspark(folder, *, stages=3, without=()):
    tensors = {"embed.weight": b.matrix(), "head.weight": b.matrix(), "norm.weight": b.NORM}
    for i in range(2):
        tensors |= b.v4_layer(f"layers.{i}", "F8_E4M3")
    for i in range(stages):
        tensors |= b.v4_layer(f"mtp.{i}", "F8_E4M3")
    last = f"mtp.{stages - 1}"
    tensors |= {"mtp.0.main_proj.weight": b.matrix(), "mtp.0.main_norm.weight": b.NORM}
    tensors |= {f"{last}.markov_head.markov_w{n}.weight": b.matrix() for n in (1, 2)}
    tensors |= {f"{last}.norm.weight": b.NORM, f"{last}.hc_head_fn": ("F32", (4, 32))}
    tensors = {name: one for name, one in tensors.items() if not name.endswith(without or "\0")}
    method = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "activation_scheme": "dynamic",
    }
    config = b.config_of(
        "DeepseekV4ForCausalLM", model_type="deepseek_v4", num_nextn_predict_layers=1,
        dspark_block_size=5, quantization_config=method,
    )  # fmt: skip
    return b.write_checkpoint(folder, config, tensors)


def test_dspark_stages_in_the_same_checkpoint(tmp_path):
    draft, text, findings = look(dspark(tmp_path))
    assert (draft.kind, draft.stages, draft.inside) == ("dspark", (0, 1, 2), True)
    assert "DSpark stages in the same checkpoint (mtp.0 to mtp.2), and no MTP layers" in text
    assert """--speculative-config '{"method": "dspark", "num_speculative_tokens": 5}'""" in text
    assert "0.25.0 or later runs it" in text
    assert [one for one in findings if one.fault] == []
    assert not any("graft" in (one.hint or "") for one in findings)


def test_dspark_stages_without_their_head(tmp_path):
    _, _, findings = look(dspark(tmp_path, without=("markov_w1.weight", "markov_w2.weight")))
    assert [one.kind for one in findings if one.fault] == ["dspark-incomplete"]


def test_an_mtp_layer_of_the_same_model_is_no_draft(tmp_path):
    draft, text, _ = look(b.v4(tmp_path, [r"re:.*"]))
    assert draft is None
    assert """--speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'""" in text


EAGLE = {"fc.weight": b.matrix(columns=2 * b.HIDDEN)} | b.dense("layers.0")
EAGLE_3 = {
    "fc.weight": b.matrix(columns=3 * b.HIDDEN), "d2t": ("I64", (8,)), "t2d": ("BOOL", (8,)),
    "midlayer.self_attn.q_proj.weight": b.matrix(), "lm_head.weight": b.matrix(),
    "norm.weight": b.NORM,
}  # fmt: skip
MEDUSA = {f"{n}.0.linear.weight": b.matrix() for n in range(3)}
MEDUSA |= {f"{n}.1.weight": b.matrix() for n in range(3)}
ASSISTANT = {"model.embed_tokens.weight": b.matrix(), "pre_projection.weight": b.matrix()}
ASSISTANT |= b.dense("model.layers.0")
SPECULATOR = {
    "architectures": ["Eagle3DraftModel"],
    "speculators_model_type": "eagle3",
    "speculators_config": {
        "algorithm": "eagle3",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
        "verifier": {"name_or_path": "Qwen/Qwen3-8B", "architectures": ["Qwen3ForCausalLM"]},
    },
    "transformer_layer_config": {"hidden_size": 8, "num_hidden_layers": 1},
}
CASES = {
    "eagle": (b.config_of("LlamaForCausalLM", 1), EAGLE, "eagle", "0.20.0 or later runs it"),
    "eagle3-llama": (
        b.config_of("LlamaForCausalLM", 1), EAGLE_3, "eagle3", "0.20.0 or later runs it"
    ),
    "eagle3": (
        b.config_of("LlamaForCausalLMEagle3", 1), EAGLE_3, "eagle3", "0.20.0 or later runs it"
    ),
    "eagle3-qwen": (
        b.config_of("Eagle3Qwen3ForCausalLM", 1), EAGLE_3, "eagle3", "0.24.0 or later runs it"
    ),
    "eagle-cohere": (
        b.config_of("CohereForCausalLM", 1), EAGLE, "eagle", "0.21.0 or later runs it"
    ),
    "medusa": (
        {"architectures": ["MedusaModel"], "model_type": "medusa"}, MEDUSA, "medusa",
        "0.20.0 to 0.32.0 run it",
    ),
    "medusa-old": (
        {"base_model_name_or_path": "lmsys/vicuna-7b", "medusa_num_heads": 3}, MEDUSA, "medusa",
        "0.20.0 to 0.32.0 run it",
    ),
    "gemma4": (
        {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant"},
        ASSISTANT, "assistant", "0.21.0 or later runs it",
    ),
    "muse": (
        {"architectures": ["MuseGlimmerAssistantModel"], "model_type": "muse_glimmer_assistant"},
        ASSISTANT, "assistant", "0.28.0 or later runs it",
    ),
    "speculators": (SPECULATOR, EAGLE_3, "eagle3", "0.20.0 or later runs it"),
    "speculators-peagle": (
        SPECULATOR | {"speculators_model_type": "peagle"}, EAGLE_3, "peagle",
        "0.22.0 or later runs it",
    ),
    "speculators-dspark": (
        SPECULATOR | {"speculators_model_type": "dspark"}, EAGLE_3, "dspark",
        "0.25.0 or later runs it",
    ),
    "qwen3-dspark": (
        b.config_of("Qwen3DSparkModel", 5, model_type="qwen3", block_size=7), EAGLE_3, "dspark",
        "0.25.0 or later runs it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "tensors", "kind", "releases"), CASES.values(), ids=CASES)
def test_a_draft_in_a_folder_of_its_own(config, tensors, kind, releases, tmp_path):
    draft, text, findings = look(b.write_checkpoint(tmp_path, config, tensors))
    assert draft.kind == kind
    assert releases in text
    assert f'"model": "{tmp_path}"' in text
    assert [one for one in findings if one.fault] == []
    assert not any("graft" in (one.hint or "") for one in findings)


def test_a_folder_of_speculators_names_its_verifier_and_tokens(tmp_path):
    draft, text, _ = look(b.write_checkpoint(tmp_path, SPECULATOR, EAGLE_3))
    assert draft.what == "an EAGLE-3 head, in a folder of vllm-project/speculators"
    assert "for Qwen/Qwen3-8B" in text
    assert json.loads(draft.config("x")) == {
        "method": "eagle3",
        "model": "x",
        "num_speculative_tokens": 5,
    }


def test_an_eagle_head_that_no_release_registers(tmp_path):
    config = b.config_of("NobodysForCausalLM", 1)
    draft, text, findings = look(b.write_checkpoint(tmp_path, config, EAGLE_3))
    assert (draft.kind, draft.release) == ("eagle3", None)
    assert "--speculative-config" not in text
    assert [one.kind for one in findings] == ["draft-unknown"]


def test_a_small_model_is_no_draft(tmp_path):
    for layers in (1, 2):
        config = b.config_of("LlamaForCausalLM", layers)
        draft, _, findings = look(
            b.write_checkpoint(tmp_path / str(layers), config, b.trunk(layers))
        )
        assert draft is None
        (note,) = findings
        assert note.kind == "no-mtp"
        assert '{"method": "ngram", "num_speculative_tokens": 3}' in note.hint


@pytest.mark.parametrize(
    ("nested", "place"),
    [(True, "text_config.mtp_num_hidden_layers"), (False, "mtp_num_hidden_layers")],
)
def test_the_place_of_the_key_that_declares_mtp(nested, place, tmp_path):
    sizes = {"num_hidden_layers": 2, "hidden_size": b.HIDDEN}
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"}
    config |= {"text_config": sizes} if nested else sizes
    _, _, findings = look(b.write_checkpoint(tmp_path, config, b.trunk() | b.qwen_head()))
    hints = {one.kind: one.hint for one in findings}
    assert hints["mtp-undeclared"] == f"set {place} to 1 in config.json"


RESNET = {"conv1.weight": ("F32", (8, 3, 7, 7)), "fc.weight": ("F32", (10, 8))}
NO_DRAFTS = {
    "a classifier": ({"num_classes": 10}, RESNET),
    "layers without names": ({}, {f"{n}.{m}.weight": b.matrix() for n in range(2) for m in "01"}),
    "an output head": ({"num_hidden_layers": 2}, {"lm_head.weight": b.matrix()}),
}


@pytest.mark.parametrize(("config", "tensors"), NO_DRAFTS.values(), ids=NO_DRAFTS)
def test_names_that_a_draft_has_as_well_make_no_draft(config, tensors, tmp_path):
    draft, _, _ = look(b.write_checkpoint(tmp_path, config, tensors))
    assert draft is None


def test_a_shard_that_is_missing_does_not_make_a_draft_of_the_rest(tmp_path):
    shards = {"model-1.safetensors": b.trunk(), "model-2.safetensors": MEDUSA}
    b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM"), shards)
    (tmp_path / "model-1.safetensors").unlink()
    draft, text, _ = look(tmp_path)
    assert draft is None
    assert "Medusa" not in text


def test_a_key_goes_where_the_other_sizes_are(tmp_path):
    config = b.config_of("Qwen3_5ForConditionalGeneration", text_config={"model_type": "qwen3_5"})
    _, _, findings = look(b.write_checkpoint(tmp_path, config, b.trunk() | b.qwen_head()))
    hints = {one.kind: one.hint for one in findings}
    assert hints["mtp-undeclared"] == "set mtp_num_hidden_layers to 1 in config.json"


def test_a_draft_of_the_hub_is_named_as_vllm_takes_it(tmp_path):
    draft, _, _ = look(b.write_checkpoint(tmp_path, b.config_of("LlamaForCausalLM", 1), EAGLE_3))
    tokens = {"num_speculative_tokens": 1}
    named = {"method": "eagle3", "model": "acme/draft"}
    assert json.loads(draft.config("acme/draft")) == named | tokens
    value = json.loads(draft.config("acme/draft@v1"))
    assert value == named | {"revision": "v1"} | tokens


def test_a_shell_reads_what_starts_a_draft(tmp_path):
    folder = tmp_path / "it's mine"
    _, text, _ = look(b.write_checkpoint(folder, b.config_of("LlamaForCausalLM", 1), EAGLE_3))
    (line,) = (one for one in text.splitlines() if "--speculative-config" in one)
    _, value = shlex.split(line)
    assert json.loads(value)["model"] == str(folder)
