"""The MTP layer's projections, where a quantisation config leaves them out by name."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.quantization.compressed_tensors import (
    compressed_tensors,
)

QUANTISED = compressed_tensors.CompressedTensorsLinearMethod
PREFIX = "model.layers.61"
HIDDEN = 128
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


class Empty(nn.Module):
    """Stands for the parts of the layer that need a GPU and have a name anyway."""

    def __init__(self, *_arguments, **_keywords):
        super().__init__()


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "store"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield


def is_there(name):
    """Whether a release has a module."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


# Until 0.21 one module has the layer for every vendor.
PLACES = ["vllm.model_executor.models.deepseek_v4_mtp"]
PLACES += [f"vllm.models.deepseek_v4.{name}.mtp" for name in ("nvidia", "amd", "xpu")]


def layer(place, ignore, monkeypatch):
    # AMD's platform asks for its GPU on import, and older layers make a stream.
    gpu = SimpleNamespace(gcnArchName="gfx942")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    monkeypatch.setattr(torch.cuda, "Stream", Empty)
    module = importlib.import_module(place)
    for name in ("SharedHead", "DeepseekV4DecoderLayer", "HCHeadOp"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, Empty)
    quantised = compressed_tensors.CompressedTensorsConfig.from_config(
        {
            "format": "pack-quantized",
            "ignore": ignore,
            "config_groups": {"group_0": GROUP},
        }
    )
    hf_config = SimpleNamespace(
        hidden_size=HIDDEN, rms_norm_eps=1e-6, hc_eps=1e-6, hc_mult=2
    )
    config = SimpleNamespace(
        speculative_config=SimpleNamespace(
            draft_model_config=SimpleNamespace(hf_config=hf_config)
        ),
        quant_config=quantised,
        kernel_config=SimpleNamespace(moe_backend="auto", enable_jit_warmup=False),
    )
    buffer = torch.empty(1, 1, dtype=torch.int32)
    return module.DeepSeekV4MultiTokenPredictorLayer(config, buffer, PREFIX)


PLACE = pytest.mark.parametrize("place", [name for name in PLACES if is_there(name)])


@PLACE
@pytest.mark.usefixtures("one_rank")
def test_projections_that_are_ignored_by_name_keep_their_weight(place, monkeypatch):
    made = layer(place, [f"{PREFIX}.e_proj", f"{PREFIX}.h_proj"], monkeypatch)
    for projection in (made.e_proj, made.h_proj):
        # A checkpoint has `weight` for them, and no `weight_packed`.
        assert set(dict(projection.named_parameters())) == {"weight"}
        assert isinstance(projection.quant_method, UnquantizedLinearMethod)


@PLACE
@pytest.mark.usefixtures("one_rank")
def test_each_projection_has_its_own_name(place, monkeypatch):
    made = layer(place, [f"{PREFIX}.h_proj"], monkeypatch)
    assert isinstance(made.h_proj.quant_method, UnquantizedLinearMethod)
    assert isinstance(made.e_proj.quant_method, QUANTISED)


@PLACE
@pytest.mark.usefixtures("one_rank")
def test_projections_that_are_not_ignored_stay_quantised(place, monkeypatch):
    made = layer(place, ["lm_head"], monkeypatch)
    for projection in (made.e_proj, made.h_proj):
        assert isinstance(projection.quant_method, QUANTISED)
