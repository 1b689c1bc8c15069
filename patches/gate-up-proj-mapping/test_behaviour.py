"""The format of a fused gate_up_proj, by a config's names for its parts."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.layers.linear import (
    MergedColumnParallelLinear,
    UnquantizedLinearMethod,
)
from vllm.model_executor.layers.quantization.compressed_tensors import (
    compressed_tensors,
)

QUANTISED = compressed_tensors.CompressedTensorsLinearMethod
MODELS = "vllm.model_executor.models."
# The class, and where its checkpoint has an MLP.
CLASSES = {
    "qwen3_next_mtp.Qwen3NextMTP": "mtp.layers.0.mlp.shared_expert",
    "bamba.BambaForCausalLM": "model.layers.0.feed_forward",
}
GROUP = {
    "targets": ["Linear"],
    "weights": {
        "num_bits": 4,
        "type": "int",
        "symmetric": True,
        "strategy": "group",
        "group_size": 32,
    },
}


def is_there(name):
    """Whether a release has the module of a class."""
    return importlib.util.find_spec(MODELS + name.split(".")[0]) is not None


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "store"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield


def fused_layer(name, parts):
    """The fused layer of the model's first MLP, where a config ignores parts of it."""
    module, model = name.split(".")
    mlp = CLASSES[name]
    config = compressed_tensors.CompressedTensorsConfig.from_config(
        {
            "format": "pack-quantized",
            "ignore": [f"{mlp}.{part}" for part in parts],
            "config_groups": {"group_0": GROUP},
        }
    )
    # The loader does this, or SupportsQuant, before layers are built.
    model_class = getattr(importlib.import_module(MODELS + module), model)
    config.packed_modules_mapping = model_class.packed_modules_mapping
    return MergedColumnParallelLinear(
        128, [64, 64], bias=False, quant_config=config, prefix=f"{mlp}.gate_up_proj"
    )


EACH = pytest.mark.parametrize("name", [name for name in CLASSES if is_there(name)])


@EACH
@pytest.mark.usefixtures("one_rank")
def test_parts_that_are_ignored_leave_the_layer_as_it_is(name):
    layer = fused_layer(name, ["gate_proj", "up_proj"])
    assert isinstance(layer.quant_method, UnquantizedLinearMethod)
    assert set(dict(layer.named_parameters())) == {"weight"}


@EACH
@pytest.mark.usefixtures("one_rank")
def test_another_format_of_down_proj_does_not_matter(name):
    layer = fused_layer(name, ["down_proj"])
    assert isinstance(layer.quant_method, QUANTISED)


@EACH
@pytest.mark.usefixtures("one_rank")
def test_without_ignored_parts_the_layer_is_quantised(name):
    layer = fused_layer(name, [])
    assert isinstance(layer.quant_method, QUANTISED)


@EACH
@pytest.mark.usefixtures("one_rank")
def test_parts_of_two_formats_are_refused(name):
    with pytest.raises(ValueError, match="Found a different quantization schemes"):
        fused_layer(name, ["gate_proj"])
