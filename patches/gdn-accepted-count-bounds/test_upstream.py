# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""For upstream: a row without accepted tokens reads its own cache line."""

import importlib
import importlib.util
from pathlib import Path

import pytest
import torch

import vllm
from vllm import triton_utils
from vllm.platforms import current_platform

WIDTH = 4
TOKENS = 2
DIM = 8
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def update(monkeypatch):
    """The Triton function, also on a CPU, where its interpreter runs it."""
    if DEVICE == "cpu":
        # vLLM leaves it out on a CPU.
        for name, source in (("triton", "triton"), ("tl", "triton.language")):
            monkeypatch.setattr(triton_utils, name, importlib.import_module(source))
        monkeypatch.setattr(type(current_platform), "is_cpu", lambda _: False)
    folder = Path(vllm.__file__).parent / "model_executor/layers/mamba/ops"
    spec = importlib.util.spec_from_file_location("conv", folder / "causal_conv1d.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.causal_conv1d_update


def test_conv1d_update_with_accepted_tokens(update):
    assert_own_lines(update, [1, 2, 1])


def test_conv1d_update_without_accepted_tokens_reads_its_own_line(update):
    assert_own_lines(update, [2, 0, 0])


def assert_own_lines(update, counts):
    torch.manual_seed(6)
    length = WIDTH - 1 + TOKENS - 1
    # One more cache line than rows: line 0 is the null block.
    lines = torch.randn(4, length, DIM, device=DEVICE)
    x = torch.randn(3 * TOKENS, DIM, device=DEVICE)
    weight = torch.randn(DIM, WIDTH, device=DEVICE)
    out = update(
        x.clone(),
        lines.clone().transpose(1, 2),
        weight,
        activation="silu",
        conv_state_indices=torch.tensor([1, 2, 3], dtype=torch.int32, device=DEVICE),
        num_accepted_tokens=torch.tensor(counts, dtype=torch.int32, device=DEVICE),
        query_start_loc=torch.arange(4, dtype=torch.int32, device=DEVICE) * TOKENS,
        max_query_len=TOKENS,
    )
    for row, count in enumerate(counts):
        # A count of 0 reads what a count of 1 does.
        begin = max(count - 1, 0)
        fresh = x[row * TOKENS : (row + 1) * TOKENS]
        window = torch.cat([lines[row + 1, begin : begin + WIDTH - 1], fresh])
        for token in range(TOKENS):
            sums = (window[token : token + WIDTH].T * weight).sum(1)
            wanted = sums * torch.sigmoid(sums)
            torch.testing.assert_close(
                out[row * TOKENS + token], wanted, rtol=1e-4, atol=1e-4
            )
