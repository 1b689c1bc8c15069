"""Which gates the recurrence of the GDN layers gets, with the kernels replaced."""

from __future__ import annotations

import importlib
import importlib.util
from types import SimpleNamespace

import pytest
import torch

from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadata

# Until 0.21 one module has the layer of every model.
MODULES = (
    "vllm.model_executor.layers.mamba.gdn_linear_attn",
    "vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn",
)
DIM = 4


class RecurrenceError(Exception):
    """Ends the function where it calls the recurrence of the tokens that draft."""


def found_module():
    for name in MODULES:
        try:
            if importlib.util.find_spec(name):
                return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise AssertionError(MODULES)


def forward_core(module):
    """Return the function of the class that has it."""
    (function,) = {
        value.__dict__["_forward_core"]
        for value in vars(module).values()
        if isinstance(value, type) and "_forward_core" in vars(value)
    }
    return function


def recurrence(monkeypatch, drafting, other):
    """Run a step in which the token number n has n in each of its values.

    Return what the recurrence gets of the drafting tokens: query, a and b.
    """
    module = found_module()
    total = len(drafting) + len(other)
    values = torch.arange(total, dtype=torch.float32)[:, None].expand(-1, DIM)
    calls = {}

    def update(**arguments):
        calls.update(arguments)
        raise RecurrenceError

    def gates(conv_output, **_):
        return (conv_output,) * 5

    def convolution(x, *_, **__):
        return x

    for name, function in {
        "causal_conv1d_update": convolution,
        "causal_conv1d_fn": convolution,
        "fused_sigmoid_gating_delta_rule_update": update,
        "fused_post_conv_prep": gates,
        "is_conv_state_dim_first": lambda: True,
    }.items():
        monkeypatch.setattr(module, name, function)
    metadata = GDNAttentionMetadata(
        num_prefills=1 if other else 0,
        num_prefill_tokens=len(other),
        num_decodes=0,
        num_decode_tokens=0,
        num_spec_decodes=1,
        num_spec_decode_tokens=len(drafting),
        num_actual_tokens=total,
        spec_query_start_loc=torch.tensor([0, len(drafting)], dtype=torch.int32),
        spec_sequence_masks=torch.tensor([True]),
        spec_token_indx=torch.tensor(drafting),
        non_spec_token_indx=torch.tensor(other),
        spec_state_indices_tensor=torch.ones(1, len(drafting), dtype=torch.int32),
        num_accepted_tokens=torch.ones(1, dtype=torch.int32),
    )
    context = SimpleNamespace(attn_metadata={"layer": metadata})
    monkeypatch.setattr(module, "get_forward_context", lambda: context)
    layer = SimpleNamespace(
        prefix="layer",
        enable_packed_recurrent_decode=False,
        kv_cache=(torch.zeros(2, DIM, 3), torch.zeros(2, 1, DIM, DIM)),
        conv1d=SimpleNamespace(weight=torch.zeros(DIM, 1, 4), bias=None),
        activation="silu",
        A_log=torch.zeros(1),
        dt_bias=torch.zeros(1),
        num_k_heads=1,
        num_v_heads=1,
        tp_size=1,
        head_k_dim=DIM,
        head_v_dim=DIM,
        rearrange_mixed_qkv=lambda mixed: (mixed,) * 3,
    )
    with pytest.raises(RecurrenceError):
        forward_core(module)(
            layer,
            mixed_qkv=values.clone(),
            b=values[:, :1].clone(),
            a=values[:, :1].clone(),
            core_attn_out=torch.empty(total, 1, DIM),
        )
    return [calls[name][:, 0].tolist() for name in ("q", "a", "b")]


def test_a_mixed_step_takes_the_gates_of_its_own_tokens(monkeypatch):
    query, a, b = recurrence(monkeypatch, drafting=[1, 2, 3], other=[0])
    assert query == [1, 2, 3]
    assert a == [1, 2, 3]
    assert b == [1, 2, 3]


def test_a_step_that_drafts_as_a_whole_is_as_before(monkeypatch):
    query, a, b = recurrence(monkeypatch, drafting=[0, 1, 2], other=[])
    assert query == a == b == [0, 1, 2]
