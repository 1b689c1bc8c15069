"""What releases have for a model is what their own registries say."""

from __future__ import annotations

import re

import pytest
from packaging.version import Version

from tests.checkpoint import builders as b
from tests.helpers import fails
from vpatch.checkpoint.support import QUANTISATION, REGISTRY, SPECULATIVE, support_of
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


def reached(version, first):
    return first is not None and Version(version) >= Version(first)
