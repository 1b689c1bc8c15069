"""The formats that a Quark config has for DeepSeek-V4's MTP layers, in AMD's copy."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.layers.linear import ReplicatedLinear
from vllm.model_executor.layers.quantization.quark.quark import QuarkConfig
from vllm.model_executor.model_loader.utils import configure_quant_config

AMD = "vllm.models.deepseek_v4.amd."
HF_CONFIG = SimpleNamespace(num_hidden_layers=43, num_nextn_predict_layers=2)
GLOBAL = {
    "weight": {
        "dtype": "int8",
        "qscheme": "per_tensor",
        "is_dynamic": False,
        "symmetric": True,
    },
    "input_tensors": {
        "dtype": "int8",
        "qscheme": "per_tensor",
        "is_dynamic": False,
        "symmetric": True,
    },
}
FP8 = {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_block"}}
FP4 = {"weight": {"dtype": "fp4", "qscheme": "per_group"}}


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "store"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield


class Layers(nn.Module):
    """Stands for the layers of the draft."""

    def __init__(self, *_arguments, **_keywords):
        super().__init__()


@pytest.fixture
def config(request, monkeypatch):
    """The config that trunk and draft share, after the loader has built both."""
    request.getfixturevalue("one_rank")
    # AMD's platform asks for its GPU on import.
    gpu = SimpleNamespace(gcnArchName="gfx942")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: gpu)
    mtp = importlib.import_module(AMD + "mtp")
    trunk = importlib.import_module(AMD + "model").DeepseekV4ForCausalLM
    monkeypatch.setattr(mtp, "DeepSeekV4MultiTokenPredictor", Layers)
    quark = QuarkConfig.from_config(
        {
            "quant_method": "quark",
            "export": {"kv_cache_group": [], "pack_method": "reorder"},
            "global_quant_config": GLOBAL,
            "layer_type_quant_config": {},
            "layer_quant_config": {
                "layers.3.attn.wq_a": FP4,
                "layers.3.attn.wkv": FP4,
                "mtp.0.attn.wq_a": FP8,
                "mtp.0.attn.wkv": FP8,
                "mtp.1.attn.wo_b": FP8,
            },
            "exclude": ["mtp.0.e_proj", "layers.3.attn.wo_b", "head"],
        }
    )
    configure_quant_config(quark, trunk)
    configure_quant_config(quark, mtp.DeepSeekV4MTP)
    mtp.DeepSeekV4MTP(
        vllm_config=SimpleNamespace(
            model_config=SimpleNamespace(hf_config=HF_CONFIG), quant_config=quark
        )
    )
    return quark


def projection(config, name):
    return ReplicatedLinear(64, 64, bias=False, quant_config=config, prefix=name)


def test_the_drafts_layers_have_their_formats(config):
    entries = config.quant_config["layer_quant_config"]
    assert entries["model.layers.43.attn.wq_a"] == FP8
    assert entries["model.layers.43.attn.wkv"] == FP8
    assert entries["model.layers.44.attn.wo_b"] == FP8


def test_a_fused_layer_of_the_draft_has_the_format_of_its_parts(config):
    name = "model.layers.43.attn.fused_wqa_wkv"
    assert config._find_matched_config(name, ReplicatedLinear) == FP8


def test_a_projection_of_the_draft_that_is_excluded_keeps_its_weight(config):
    layer = projection(config, "model.layers.43.e_proj")
    assert set(dict(layer.named_parameters())) == {"weight"}


def test_a_projection_of_the_draft_that_is_not_excluded_is_quantised(config):
    layer = projection(config, "model.layers.43.h_proj")
    assert "weight_scale" in dict(layer.named_parameters())


def test_the_trunks_layers_have_theirs(config):
    name = "model.layers.3.attn.fused_wqa_wkv"
    assert config._find_matched_config(name, ReplicatedLinear) == FP4
    assert "model.layers.3.attn.wo_b" in config.quant_config["exclude"]


def test_a_draft_without_a_config_is_built(monkeypatch):
    gpu = SimpleNamespace(gcnArchName="gfx942")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: gpu)
    mtp = importlib.import_module(AMD + "mtp")
    monkeypatch.setattr(mtp, "DeepSeekV4MultiTokenPredictor", Layers)
    model_config = SimpleNamespace(hf_config=HF_CONFIG)
    draft = mtp.DeepSeekV4MTP(
        vllm_config=SimpleNamespace(model_config=model_config, quant_config=None)
    )
    assert draft.quant_config is None
