# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""For upstream: a row that accepted nothing does not end the engine on the CPU."""

from types import SimpleNamespace

import torch

from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention

HEAD = 32
DIM = 3 * HEAD
WIDTH = 4
TOKENS = 4
STATE_LEN = WIDTH + TOKENS - 2


def test_speculative_convolution_gets_no_count_of_zero(monkeypatch):
    """The C++ convolution refuses a count of zero. It runs where AMX is, so a
    recorder takes its place."""
    names = ("_causal_conv1d_update_cpu", "causal_conv1d_update_cpu")
    owners = ((gdn_attention, names[0]), (gdn_attention.ops, names[1]))
    owner, name = next(pair for pair in owners if hasattr(*pair))
    counts = []

    def convolution(*, x, num_accepted_tokens, **_kwargs):
        counts.append(num_accepted_tokens.tolist())
        return torch.zeros_like(x)

    monkeypatch.setattr(owner, name, convolution)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr(gdn_attention, "is_conv_state_dim_first", lambda: False)
    layer = SimpleNamespace(
        conv1d=SimpleNamespace(
            weight=torch.zeros(DIM, 1, WIDTH, dtype=torch.bfloat16), bias=None
        ),
        activation="silu",
        A_log=torch.zeros(1),
        dt_bias=torch.zeros(1, dtype=torch.bfloat16),
        rearrange_mixed_qkv=lambda mixed: [
            part.reshape(1, -1, 1, HEAD).contiguous() for part in mixed.split(HEAD, -1)
        ],
    )
    metadata = SimpleNamespace(
        num_spec_decodes=2,
        spec_state_indices_tensor=1
        + torch.arange(2 * TOKENS, dtype=torch.int32).view(2, TOKENS),
        spec_query_start_loc=torch.tensor([0, TOKENS, 2 * TOKENS], dtype=torch.int32),
        num_accepted_tokens=torch.tensor([0, 2], dtype=torch.int32),
    )
    batch = torch.zeros(2 * TOKENS, DIM + 2, dtype=torch.bfloat16)
    gdn_attention._spec_forward(
        layer,
        metadata,
        batch[:, :DIM].contiguous(),
        batch[:, DIM + 1 :].contiguous(),
        batch[:, DIM : DIM + 1].contiguous(),
        torch.zeros(2 * TOKENS + 1, STATE_LEN, DIM, dtype=torch.bfloat16).transpose(
            1, 2
        ),
        torch.zeros(2 * TOKENS + 1, 1, HEAD, HEAD),
        WIDTH,
        STATE_LEN,
    )
    assert counts == [[1, 2]]
