# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""For upstream: the output head of HY V3's MTP module has its checkpoint's name."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.layers.quantization.compressed_tensors import (
    compressed_tensors,
)
from vllm.model_executor.models import hy_v3_mtp

WEIGHTS = {
    "num_bits": 4,
    "type": "int",
    "symmetric": True,
    "strategy": "group",
    "group_size": 32,
}
HF_CONFIG = SimpleNamespace(hidden_size=128, vocab_size=256, rms_norm_eps=1e-6)


class Block(nn.Module):
    """Stands for the decoder layer, which has a name anyway."""

    def __init__(self, *_args, **_kwargs):
        super().__init__()


@pytest.fixture
def one_rank(tmp_path):
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{tmp_path / 'store'}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield


@pytest.mark.usefixtures("one_rank")
def test_mtp_head_of_hy_v3_that_is_ignored_is_not_quantized(monkeypatch):
    monkeypatch.setattr(hy_v3_mtp, "HYV3DecoderLayer", Block)
    config = compressed_tensors.CompressedTensorsConfig.from_config(
        {
            "format": "pack-quantized",
            "ignore": ["lm_head"],
            "config_groups": {
                "group_0": {"targets": ["ParallelLMHead"], "weights": WEIGHTS}
            },
        }
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        layer = hy_v3_mtp.HYV3MultiTokenPredictorLayer(
            HF_CONFIG,
            "model.layers.80",
            model_config=None,
            cache_config=None,
            quant_config=config,
        )
    finally:
        torch.set_default_dtype(before)
    # A quantized head would have weight_packed, and the BF16 tensor no place.
    assert set(dict(layer.shared_head.head.named_parameters())) == {"weight"}
