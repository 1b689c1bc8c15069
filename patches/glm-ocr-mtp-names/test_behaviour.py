"""Which tensors of a GLM-OCR checkpoint its MTP module loads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.models import glm_ocr_mtp
from vllm.model_executor.models.utils import (
    get_spec_layer_idx_from_weight_name,
    skip_spec_layers,
)

HIDDEN = 16
TEXT = SimpleNamespace(
    hidden_size=HIDDEN,
    vocab_size=64,
    rms_norm_eps=1e-6,
    num_hidden_layers=2,
    num_nextn_predict_layers=1,
)
# As the checkpoint of zai-org/GLM-OCR has them, where the trunk has 16 layers.
LAYER = "model.language_model.layers.2"


class Block(nn.Module):
    """Stands for the decoder layer, which has names of its own in a checkpoint."""

    def __init__(self, **_keywords):
        super().__init__()
        self.down_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "store"
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
        initialize_model_parallel(1, 1)
        yield


@pytest.fixture
def draft(request, monkeypatch):
    request.getfixturevalue("one_rank")
    monkeypatch.setattr(glm_ocr_mtp, "Glm4DecoderLayer", Block)
    hf_config = SimpleNamespace(text_config=TEXT)
    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_config=hf_config),
        speculative_config=SimpleNamespace(
            draft_model_config=SimpleNamespace(hf_config=hf_config)
        ),
        quant_config=None,
    )
    return glm_ocr_mtp.GlmOcrMTP(vllm_config=config)


def checkpoint():
    """Tensors of the MTP layer, and one of the trunk's last layer."""
    generator = torch.Generator().manual_seed(3)
    shapes = {
        f"{LAYER}.enorm.weight": (HIDDEN,),
        f"{LAYER}.hnorm.weight": (HIDDEN,),
        f"{LAYER}.eh_proj.weight": (HIDDEN, 2 * HIDDEN),
        f"{LAYER}.shared_head.norm.weight": (HIDDEN,),
        f"{LAYER}.down_proj.weight": (HIDDEN, HIDDEN),
        "model.language_model.layers.1.down_proj.weight": (HIDDEN, HIDDEN),
    }
    return {
        name: torch.randn(shape, generator=generator) for name, shape in shapes.items()
    }


def test_the_mtp_layer_gets_its_tensors(draft):
    tensors = checkpoint()
    draft.load_weights(tensors.items())
    layer = draft.model.layers["2"]
    for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm"):
        weight = layer.get_submodule(name).weight.float()
        torch.testing.assert_close(
            weight,
            tensors[f"{LAYER}.{name}.weight"].to(layer.eh_proj.weight.dtype).float(),
        )
    torch.testing.assert_close(
        layer.mtp_block.down_proj.weight.float(), tensors[f"{LAYER}.down_proj.weight"]
    )


def test_the_trunk_skips_them():
    names = [name for name, _ in skip_spec_layers(checkpoint().items(), TEXT)]
    assert names == ["model.language_model.layers.1.down_proj.weight"]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("model.layers.2.enorm.weight", 2),
        ("layers.2.enorm.weight", 2),
        ("model.language_model.layers.20.enorm.weight", None),
        ("model.visual.layers.2.enorm.weight", None),
        ("model.language_model.embed_tokens.weight", None),
    ],
)
def test_other_names_mean_what_they_did(name, layer):
    assert get_spec_layer_idx_from_weight_name(TEXT, name) == layer
