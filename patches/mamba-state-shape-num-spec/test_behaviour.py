"""The state that vLLM plans for a hybrid model, and the one that its layers keep."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator

MODELS = {
    "falcon_h1": "FalconH1ForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "zamba2": "Zamba2ForCausalLM",
    "bamba": "BambaForCausalLM",
}
DRAFTS = 3
KERNEL = 4
HEADS, HEAD, STATE = 8, 16, 32
# Bamba is not there in every release.
PRESENT = [name for name in MODELS if find_spec(f"vllm.model_executor.models.{name}")]


def planned(name, drafts):
    config = SimpleNamespace(
        hidden_size=64,
        mamba_expand=2,
        mamba_d_ssm=None,
        mamba_n_groups=1,
        mamba_ngroups=1,
        mamba_n_heads=HEADS,
        n_mamba_heads=HEADS,
        mamba_d_head=HEAD,
        mamba_headdim=HEAD,
        mamba_d_state=STATE,
        mamba_d_conv=KERNEL,
    )
    vllm_config = SimpleNamespace(
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
        model_config=SimpleNamespace(hf_config=config),
        cache_config=SimpleNamespace(use_replayssm=False),
        num_speculative_tokens=drafts,
    )
    model = getattr(import_module(f"vllm.model_executor.models.{name}"), MODELS[name])
    return model.get_mamba_state_shape_from_config(vllm_config)


def kept(drafts):
    """As a Mamba2 layer asks for it."""
    return MambaStateShapeCalculator.mamba2_state_shape(
        tp_world_size=1,
        intermediate_size=2 * 64,
        n_groups=1,
        num_heads=HEADS,
        head_dim=HEAD,
        state_size=STATE,
        conv_kernel=KERNEL,
        num_spec=drafts,
    )


@pytest.mark.parametrize("name", PRESENT)
def test_the_planned_state_has_room_for_drafts(name):
    assert planned(name, DRAFTS) == kept(DRAFTS)


@pytest.mark.parametrize("name", PRESENT)
def test_without_drafts_nothing_changes(name):
    assert planned(name, 0) == kept(0)
