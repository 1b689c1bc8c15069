"""What releases have for a model is what their own registries say."""

from __future__ import annotations

import re

import pytest
from packaging.version import Version

from tests.checkpoint import builders as b
from tests.checkpoint.test_drafts import CASES
from tests.helpers import fails
from vpatch.checkpoint.conversions import is_registered
from vpatch.checkpoint.gaps import Gap
from vpatch.checkpoint.schemes import FAMILIES
from vpatch.checkpoint.support import (
    QUANTISATION,
    REGISTRY,
    SPECULATIVE,
    files_of,
    support_of,
)
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

# Read by hand from the releases: the model type, and the first release with the model and with its
# MTP. None: none has it.
MODELS = {
    "DeepseekV3ForCausalLM": ("deepseek_v3", "0.20.0", "0.20.0"),
    "DeepseekV4ForCausalLM": ("deepseek_v4", "0.20.0", "0.20.0"),
    "Qwen3NextForCausalLM": ("qwen3_next", "0.20.0", "0.20.0"),
    "Qwen3_5ForConditionalGeneration": ("qwen3_5", "0.20.0", "0.20.0"),
    "Qwen3_5MoeForConditionalGeneration": ("qwen3_5_moe", "0.20.0", "0.20.0"),
    "Qwen3_5ForCausalLM": ("qwen3_5_text", "0.27.0", "0.28.0"),
    "Qwen3_5MoeForCausalLM": ("qwen3_5_moe_text", "0.27.0", "0.28.0"),
    "MiMoForCausalLM": ("mimo", "0.20.0", "0.20.0"),
    "MiMoV2OmniForCausalLM": ("mimo_v2", "0.21.0", "0.21.0"),
    "Glm4MoeForCausalLM": ("glm4_moe", "0.20.0", "0.20.0"),
    "Glm4MoeLiteForCausalLM": ("glm4_moe_lite", "0.20.0", "0.20.0"),
    "Ernie4_5_MoeForCausalLM": ("ernie4_5_moe", "0.20.0", "0.20.0"),
    "NobodysForCausalLM": ("nobodys", None, None),
}
# The model type of an architecture whose name does not decide.
TYPES = {
    "HYV3ForCausalLM": "hy_v3",
    "PanguUltraMoEForCausalLM": "pangu_ultra_moe",
    "Step3p7ForConditionalGeneration": "step3p7",
    "Step3p5ForCausalLM": "step3p5",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "Qwen3NextForCausalLM": "qwen3_next",
    "ExaoneMoEForCausalLM": "exaone_moe",
    "ExaoneMoeForCausalLM": "exaone_moe",
    "Qwen3_5MoeForConditionalGeneration": "qwen3_5_moe",
    "Qwen3_5MoeForCausalLM": "qwen3_5_moe_text",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "NemotronHPuzzleForCausalLM": "nemotron_h_puzzle",
    "LongcatFlashForCausalLM": "longcat_flash",
    "MiniMaxM3SparseForConditionalGeneration": "minimax_m3_vl",
    "Ernie4_5_MoeForCausalLM": "ernie4_5_moe",
    "BailingMoeV2_5ForCausalLM": "bailing_hybrid",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "HYV4ForCausalLM": "hy_v4",
    "Glm5NextForConditionalGeneration": "glm5_next",
    "Step5ForConditionalGeneration": "step5_vl",
    "Exaone4_5_ForConditionalGeneration": "exaone4_5",
    "Dots3NoteForCausalLM": "dots3_note",
    "InternS2PreviewForConditionalGeneration": "intern_s2_preview",
    "InternS2MobiusForConditionalGeneration": "interns2_mobius",
    "Qwen4ExpForConditionalGeneration": "qwen4_exp",
    "InklingForConditionalGeneration": "inkling_mm_model",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "NemotronHForCausalLM": "nemotron_h",
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "Qwen3_5ForCausalLM": "qwen3_5_text",
    "InklingForCausalLM": "inkling_model",
    "Qwen4ExpForCausalLM": "qwen4_exp_text",
}
# What a condition of the releases, or its result, asks for besides.
NESTED = {
    **{
        name: {"text_config": {"model_type": "nemotron_h", "num_nextn_predict_layers": 1}}
        for name in ("NemotronH_Super_Omni_Reasoning_V3", "NemotronH_Omni_Reasoning_V3")
    },
    "BailingMoeV3VLForConditionalGeneration": {"text_config": {}},
    "InternS2MobiusForConditionalGeneration": {
        "text_config": {"mtp_num_experts": 1, "mtp_num_experts_per_tok": 1}
    },
    **{
        name: {"mtp_config": {"num_nextn_predict_layers": 1}}
        for name in ("InklingForConditionalGeneration", "InklingForCausalLM")
    },
    **{
        name: {"hc_count": 1}
        for name in ("Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration")
    },
    "Dots3NoteForCausalLM": {"layer_types": []},
    "RadioMBartPrefixForCausalLM": {"decoder": {"causal_vision_prefix": True}},
}
TEXTS = {
    REGISTRY: """
_TEXT = {"SomeForCausalLM": ("some", "Some"), "OtherForCausalLM": ("other", "Other")}
_SPECULATIVE_DECODING_MODELS = {"SomeMTPModel": ("some_mtp", "SomeMTP")}
_OLD = {"GoneForCausalLM": "0.1.0"}
_VLLM_MODELS = {**_TEXT, **_SPECULATIVE_DECODING_MODELS}
""",
    SPECULATIVE: """
class SpeculativeConfig:
    def hf_config_override(hf_config):
        if hf_config.model_type == "some_mtp":
            hf_config.update({"architectures": ["SomeMTPModel"]})
        if hf_config.model_type in ("some", "like_some"):
            hf_config.model_type = "some_mtp"
            hf_config.update({"architectures": ["SomeMTPModel"]})
        if hf_config.architectures[0] == "OtherForCausalLM":
            hf_config.model_type = "some_mtp"
        return hf_config
""",
    QUANTISATION: 'QuantizationMethods = Literal["fp8", "compressed-tensors"]\n',
}
FILES = {path: text.encode() for path, text in TEXTS.items()}


def checkpoint(folder, architecture, model_type, **keys):
    config = b.config_of(architecture, model_type=model_type, **keys)
    return b.look_at(b.write_checkpoint(folder, config, b.trunk() | b.mimo_head()))


@pytest.mark.parametrize(
    ("architecture", "model_type", "has"),
    [
        ("SomeForCausalLM", "some", (True, True, None)),
        ("SomeForCausalLM", "another", (True, False, None)),
        # What the first condition asks comes before what the last one sets.
        ("OtherForCausalLM", "other", (True, False, None)),
        ("GoneForCausalLM", "gone", (False, False, None)),
    ],
)
def test_a_release(tmp_path, architecture, model_type, has):
    found = checkpoint(tmp_path, architecture, model_type)
    support = support_of(found, FILES, "0.50.0")
    assert (support.architecture, support.mtp, support.quantisation) == has


@pytest.mark.parametrize(("method", "known"), [("fp8", True), ("awq", False)])
def test_a_method_of_quantisation(tmp_path, method, known):
    quantised = {"quantization_config": {"quant_method": method, "bits": 4, "group_size": 128}}
    found = checkpoint(tmp_path, "SomeForCausalLM", "some", **quantised)
    assert support_of(found, FILES, "0.50.0").quantisation is known


def test_a_config_without_its_type_does_not_say_which_draft(tmp_path):
    config = b.config_of("SomeForCausalLM")
    found = b.look_at(b.write_checkpoint(tmp_path, config, b.trunk() | b.mimo_head()))
    assert support_of(found, FILES, "0.50.0").mtp is None


def test_a_checkpoint_without_mtp_does_not_ask_for_it(tmp_path):
    config = b.config_of("SomeForCausalLM", model_type="some")
    found = b.look_at(b.write_checkpoint(tmp_path, config, b.trunk()))
    assert support_of(found, FILES, "0.50.0").mtp is None


@pytest.mark.parametrize(
    "files",
    [
        {path: text for path, text in FILES.items() if path != SPECULATIVE},
        FILES | {REGISTRY: b"MODELS = {}"},
        FILES | {SPECULATIVE: b"def another(): ..."},
        FILES | {QUANTISATION: b"METHODS = []"},
    ],
    ids=["gone", "registry", "override", "methods"],
)
def test_a_registry_in_another_form(tmp_path, files):
    quantised = {"quantization_config": {"quant_method": "fp8"}}
    found = checkpoint(tmp_path, "SomeForCausalLM", "some", **quantised)
    with fails("checkpoint.unknown-registry", "cannot read what vLLM 0.50.0 has"):
        support_of(found, files, "0.50.0")


OVERRIDE = b"""
class Some:
    def override_quantization_method(cls, hf_quant_cfg, user_quant):
        is_other = hf_quant_cfg.get("quant_method", None) == "other-name"
        return "some" if is_other and user_quant != "awq" else None
"""


@pytest.mark.parametrize(("method", "known"), [("other-name", True), ("awq", False)])
def test_a_method_that_another_one_takes_over(tmp_path, method, known):
    found = checkpoint(
        tmp_path, "SomeForCausalLM", "some", quantization_config={"quant_method": method}
    )
    files = FILES | {"vllm/model_executor/layers/quantization/some.py": OVERRIDE}
    assert support_of(found, files, "0.50.0").quantisation is known


def test_an_algorithm_of_modelopt_that_a_release_lacks(tmp_path):
    config = {"quant_method": "modelopt", "quant_algo": "nvfp4"}
    found = checkpoint(tmp_path, "SomeForCausalLM", "some", quantization_config=config)
    path = "vllm/model_executor/layers/quantization/modelopt.py"
    registry = FILES | {QUANTISATION: b'QuantizationMethods = Literal["modelopt"]'}
    for algorithms, known in (
        (b'QUANT_ALGOS = ["FP8"]', False),
        (b'QUANT_ALGOS = ["NVFP4"]', True),
    ):
        files = registry | {path: algorithms}
        assert support_of(found, files, "0.50.0").quantisation is known


def test_an_alternative_condition_is_followed(tmp_path):
    text = (
        TEXTS[SPECULATIVE].replace("        return hf_config\n", "")
        + """
        if hf_config.model_type == "never":
            pass
        elif "ome_vl" in hf_config.model_type:
            hf_config.update({"architectures": ["SomeMTPModel"]})
        return hf_config
"""
    )
    found = checkpoint(tmp_path, "SomeForCausalLM", "some_vl_2")
    assert support_of(found, FILES | {SPECULATIVE: text.encode()}, "0.50.0").mtp is True


def test_a_release_whose_loader_does_not_read_the_layers(tmp_path, monkeypatch):
    found = checkpoint(tmp_path, "SomeForCausalLM", "some")
    assert support_of(found, FILES, "0.26.0").mtp is True
    gap = Gap("0.26.0", "0.29.0", "they read no such tensor")
    monkeypatch.setattr("vpatch.checkpoint.support.gaps_of", lambda _: (gap,))
    assert support_of(found, FILES, "0.26.0").mtp is False
    assert support_of(found, FILES, "0.30.0").mtp is True


# The first release, and the last one, that reads a config of the method: read by hand.
METHODS = {
    "auto-round": ({}, "0.20.0", None),
    "inc": ({}, "0.20.0", None),
    "gptq": ({"bits": 4}, "0.20.0", None),
    "awq": ({"bits": 4}, "0.20.0", None),
    "compressed_tensors": ({}, "0.20.0", None),
    "compressed-tensors": ({}, "0.20.0", None),
    "quark": ({}, "0.20.0", None),
    "fp8": ({}, "0.20.0", None),
    "mxfp4": ({}, "0.20.0", None),
    "modelopt": ({"quant_algo": "NVFP4"}, "0.20.0", None),
    "bitsandbytes": ({}, "0.20.0", "0.27.1"),
    "gguf": ({}, "0.20.0", "0.23.0"),
    "torchao": ({}, "0.20.0", None),
    "never_heard_of": ({}, None, None),
}


def between(version, first, last):
    return reached(version, first) and (last is None or Version(version) <= Version(last))


@pytest.mark.slow
def test_every_release_by_its_own_methods_families_and_drafts(tmp_path):
    context = Context()
    methods = {
        name: checkpoint(
            tmp_path / name, "MiMoForCausalLM", "mimo",
            quantization_config={"quant_method": name, **keys},
        )
        for name, (keys, _, _) in METHODS.items()
    }  # fmt: skip
    drafts = {
        name: (b.look_at(b.write_checkpoint(tmp_path / f"d-{name}", config, tensors)), kind)
        for name, (config, tensors, kind, _) in CASES.items()
    }
    families = {
        name: (
            checkpoint(
                tmp_path / name,
                name,
                TYPES.get(name, "none"),
                **{one.key: 1, **NESTED.get(name, {})},
            ),
            one,
        )
        for one in FAMILIES
        for name in one.architectures
    }
    for version in context.releases():
        with context.tree(parse_vllm(version)) as tree:
            files = files_of(tree)
        runs = set()
        for found, family in families.values():
            support = support_of(found, files, version)
            if support.architecture and support.mtp:
                runs.add(family)
        assert runs == {one for one in FAMILIES if reached(version, one.since)}, version
        for name, (_, first, last) in METHODS.items():
            known = support_of(methods[name], files, version).quantisation
            assert known is between(version, first, last), (version, name)
        for name, (one, _) in drafts.items():
            release = one.draft.release
            has = support_of(one, files, version).architecture
            assert has is between(version, release.since, release.until), (version, name)


@pytest.mark.slow
def test_every_release_by_its_own_registry(tmp_path):
    context = Context()
    found = {name: checkpoint(tmp_path / name, name, one[0]) for name, one in MODELS.items()}
    for version in context.releases():
        with context.tree(parse_vllm(version)) as tree:
            files = {path: tree.read(path) for path in FILES}
        for name, (_, model, mtp) in MODELS.items():
            support = support_of(found[name], files, version)
            assert support.architecture == reached(version, model), (version, name)
            assert support.mtp == reached(version, mtp), (version, name)
            listed = re.search(rf'^    "{name}": \(', files[REGISTRY].decode(), re.MULTILINE)
            assert support.architecture == (listed is not None), (version, name)


@pytest.mark.parametrize(("architecture", "has"), [
    ("Qwen3ForCausalLM", True),
    ("Qwen3ForSequenceClassification", True),
    ("Qwen3ForTextEncoding", True),
    ("Qwen3Model", True),
    ("NobodysForSequenceClassification", False),
    # It may need a vision part that such a checkpoint does not have.
    ("Qwen3_5ForCausalLM", False),
    ("Nobodys", False),
])  # fmt: skip
def test_a_release_makes_classifiers_of_what_generates(architecture, has):
    known = {"Qwen3ForCausalLM", "Qwen3_5ForConditionalGeneration"}
    assert is_registered(architecture, known) is has


def reached(version, first):
    return first is not None and Version(version) >= Version(first)
