"""A row that accepted nothing, in vLLM's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from gdn_rows import DRAFTS, Rows

from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention

FULL = DRAFTS + 1


def leave_out_amx(monkeypatch):
    """Take the convolution in PyTorch: the weight of the C++ one is packed."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(gdn_attention, "is_arm_bf16", lambda: False, raising=False)


def test_a_count_of_one_or_more_is_as_before(monkeypatch):
    leave_out_amx(monkeypatch)
    rows = Rows(2)
    rows.step([FULL, FULL], [1, 1])
    rows.step([FULL, FULL], [3, 1])


def test_a_count_of_zero_is_read_as_one(monkeypatch):
    leave_out_amx(monkeypatch)
    rows = Rows(2)
    rows.step([FULL, FULL], [1, 1])
    # Only the first token of the second row is certain, and its count says none.
    rows.step([FULL, FULL], [3, 1], counts=[3, 0])
    # What that step wrote is read in the next one.
    rows.step([FULL, FULL], [2, 3])


def test_the_convolution_in_cpp_gets_no_zero(monkeypatch):
    """It refuses a zero. It runs where AMX is, so a recorder is put in its place."""
    names = ("_causal_conv1d_update_cpu", "causal_conv1d_update_cpu")
    owners = ((gdn_attention, names[0]), (gdn_attention.ops, names[1]))
    owner, name = next(pair for pair in owners if hasattr(*pair))
    calls = []

    def convolution(*, x, num_accepted_tokens, **_):
        calls.append(num_accepted_tokens.tolist())
        return torch.zeros_like(x)

    monkeypatch.setattr(owner, name, convolution)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr(gdn_attention, "is_conv_state_dim_first", lambda: False)
    rows = Rows(2)
    with pytest.raises(AssertionError, match="not close"):
        rows.step([FULL, FULL], [1, 1], counts=[0, 2])
    assert calls == [[1, 2]]
