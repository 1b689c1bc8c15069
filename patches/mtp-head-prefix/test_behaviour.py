"""The format of an MTP module's output head, where a quantisation config names it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.layers.quantization.compressed_tensors import (
    compressed_tensors,
)
from vllm.model_executor.models import hy_v3_mtp, step3p5_mtp

QUANTISED = compressed_tensors.CompressedTensorsLinearMethod
PREFIX = "model.layers.45"
HIDDEN = 128
HF_CONFIG = SimpleNamespace(hidden_size=HIDDEN, vocab_size=256, rms_norm_eps=1e-6)


class Block(nn.Module):
    """Stands for the decoder layer, which has a name anyway."""

    def __init__(self, *_arguments, **_keywords):
        super().__init__()


def step(quantised, monkeypatch):
    monkeypatch.setattr(step3p5_mtp, "Step3p5DecoderLayer", Block)
    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_config=HF_CONFIG), quant_config=quantised
    )
    return step3p5_mtp.Step3p5AMultiTokenPredictorLayer(config, PREFIX)


def hy_v3(quantised, monkeypatch):
    monkeypatch.setattr(hy_v3_mtp, "HYV3DecoderLayer", Block)
    return hy_v3_mtp.HYV3MultiTokenPredictorLayer(
        HF_CONFIG, PREFIX, model_config=None, cache_config=None, quant_config=quantised
    )


# What builds the layer, and the name of the tensor that its head is loaded from.
HEADS = {"step": (step, f"{PREFIX}.shared_head.head"), "hy_v3": (hy_v3, "lm_head")}


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "store"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield


def head(family, monkeypatch, *, targets, ignore=()):
    """The head of a family's MTP layer, where a config has these targets."""
    build, _ = HEADS[family]
    weights = {
        "num_bits": 4,
        "type": "int",
        "symmetric": True,
        "strategy": "group",
        "group_size": 32,
    }
    config = compressed_tensors.CompressedTensorsConfig.from_config(
        {
            "format": "pack-quantized",
            "ignore": list(ignore),
            "config_groups": {"group_0": {"targets": targets, "weights": weights}},
        }
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return build(config, monkeypatch).shared_head.head
    finally:
        torch.set_default_dtype(before)


def ignored(family, monkeypatch):
    """Build the head where the config ignores it, and all other heads are quantised."""
    name = HEADS[family][1]
    return head(family, monkeypatch, targets=["ParallelLMHead"], ignore=[name])


@pytest.mark.usefixtures("one_rank")
def test_a_head_of_step_that_is_ignored_keeps_its_weight(monkeypatch):
    assert set(dict(ignored("step", monkeypatch).named_parameters())) == {"weight"}


@pytest.mark.usefixtures("one_rank")
def test_a_head_of_hy_v3_that_is_ignored_keeps_its_weight(monkeypatch):
    assert set(dict(ignored("hy_v3", monkeypatch).named_parameters())) == {"weight"}


@pytest.mark.usefixtures("one_rank")
def test_a_head_of_step_that_is_named_is_quantised(monkeypatch):
    layer = head("step", monkeypatch, targets=[HEADS["step"][1]])
    assert isinstance(layer.quant_method, QUANTISED)


@pytest.mark.usefixtures("one_rank")
def test_a_head_of_hy_v3_that_is_named_is_quantised(monkeypatch):
    layer = head("hy_v3", monkeypatch, targets=[HEADS["hy_v3"][1]])
    assert isinstance(layer.quant_method, QUANTISED)


EACH = pytest.mark.parametrize("family", HEADS)


@EACH
@pytest.mark.usefixtures("one_rank")
def test_a_head_that_no_name_ignores_is_quantised(family, monkeypatch):
    layer = head(family, monkeypatch, targets=["ParallelLMHead"], ignore=["other"])
    assert isinstance(layer.quant_method, QUANTISED)
    assert "weight_packed" in dict(layer.named_parameters())


@EACH
@pytest.mark.usefixtures("one_rank")
def test_a_head_that_nothing_names_keeps_its_weight(family, monkeypatch):
    layer = head(family, monkeypatch, targets=["Linear"])
    assert set(dict(layer.named_parameters())) == {"weight"}
