"""The convolution of rows that draft less than the most, in vLLM's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from gdn_reference import DRAFTS, Rows

from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention

FULL = DRAFTS + 1


@pytest.fixture(autouse=True)
def convolution_in_pytorch(monkeypatch):
    """Leave out the C++ convolution: its weight would have to be packed."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(gdn_attention, "is_arm_bf16", lambda: False, raising=False)


def test_full_rows_keep_their_history():
    rows = Rows(2)
    rows.step([FULL, FULL], [1, 1])
    rows.step([FULL, FULL], [3, 1])
    rows.step([FULL, FULL], [FULL, 2])


def test_rows_with_fewer_drafts_keep_their_history():
    rows = Rows(2)
    rows.step([2, FULL], [1, 1])
    rows.step([3, 2], [2, 2])
    rows.step([FULL, FULL], [2, 1])


def test_a_row_may_accept_more_than_it_now_has():
    rows = Rows(2)
    rows.step([FULL, FULL], [1, 1])
    rows.step([1, FULL], [FULL, 2])
    rows.step([FULL, 2], [1, FULL])


def test_only_full_rows_take_the_convolution_in_cpp(monkeypatch):
    """It needs AMX, so a recorder is put in its place."""
    names = ("_causal_conv1d_update_cpu", "causal_conv1d_update_cpu")
    owners = ((gdn_attention, names[0]), (gdn_attention.ops, names[1]))
    owner, name = next(pair for pair in owners if hasattr(*pair))
    calls = []

    def convolution(*, x, **_):
        calls.append(x.shape[1])
        return torch.zeros_like(x)

    monkeypatch.setattr(owner, name, convolution)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr(gdn_attention, "is_conv_state_dim_first", lambda: False)
    rows = Rows(2)
    rows.step([2, 2], [1, 1])
    assert calls == []
    with pytest.raises(AssertionError, match="not close"):
        rows.step([FULL, FULL], [2, 1])
    assert calls == [FULL]
