"""A GDN layer of one head, and what it computes of a row's true tokens, in float64."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from vllm.model_executor.layers.mamba.ops.cpu import gdn_attention

HEAD = 32
DIM = 3 * HEAD
WIDTH = 4
DRAFTS = 3
STATE_LEN = WIDTH - 1 + DRAFTS
SLOTS = DRAFTS + 1


class Layer:
    """What the function reads of a layer: query, key and value have one head each."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(DIM, 1, WIDTH, generator=generator) * 2
        self.conv1d = SimpleNamespace(weight=weight.bfloat16(), bias=None)
        self.activation = "silu"
        self.A_log = torch.zeros(1)
        self.dt_bias = torch.zeros(1, dtype=torch.bfloat16)

    def rearrange_mixed_qkv(self, mixed: torch.Tensor) -> list[torch.Tensor]:
        """Split the columns into query, key and value: [1, tokens, 1, HEAD]."""
        return [
            part.reshape(1, -1, 1, HEAD).contiguous() for part in mixed.split(HEAD, -1)
        ]


class Rows:
    """Rows of a batch that draft: what each truly said, and the caches of the layer."""

    def __init__(self, count: int, seed: int = 3) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.layer = Layer(seed)
        # The tokens whose place in the text is certain, as rows of [qkv, a, b].
        self.certain = [self.tokens(WIDTH + 1) for _ in range(count)]
        self.pending = [self.tokens(0) for _ in range(count)]
        self.conv = torch.zeros(count * SLOTS + 1, STATE_LEN, DIM, dtype=torch.bfloat16)
        self.states = torch.zeros(count * SLOTS + 1, 1, HEAD, HEAD)
        self.table = 1 + torch.arange(count * SLOTS, dtype=torch.int32).view(-1, SLOTS)
        for row, tokens in enumerate(self.certain):
            # As a prefill leaves it: the last inputs, and the state after the prompt.
            slot = int(self.table[row, 0])
            self.conv[slot, : WIDTH - 1] = tokens[-(WIDTH - 1) :, :DIM]
            self.states[slot, 0] = self.expected(tokens)[1].float()

    def tokens(self, count: int) -> torch.Tensor:
        """Make tokens: the inputs of the layer, in bfloat16."""
        made = torch.randn(count, DIM + 2, generator=self.generator)
        return made.bfloat16()

    def expected(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the outputs of a text from its start, and the state after it."""
        weight = self.layer.conv1d.weight[:, 0].double()
        inputs = torch.cat([torch.zeros(WIDTH - 1, DIM), tokens[:, :DIM]]).double()
        state = torch.zeros(HEAD, HEAD, dtype=torch.float64)
        outputs = []
        for place, token in enumerate(tokens.double()):
            sums = (inputs[place : place + WIDTH].T * weight).sum(1)
            query, key, value = (sums * torch.sigmoid(sums)).split(HEAD)
            query = query / (query.square().sum() + 1e-6).sqrt() * HEAD**-0.5
            key = key / (key.square().sum() + 1e-6).sqrt()
            a, b = token[DIM], token[DIM + 1]
            state = state * torch.exp(-torch.log1p(a.exp()))
            change = (value - key @ state) * torch.sigmoid(b)
            state = state + torch.outer(key, change)
            outputs.append(query @ state)
        return torch.stack(outputs), state

    def step(
        self, lengths: list[int], accepted: list[int], counts: list[int] | None = None
    ) -> None:
        """Accept tokens of the last step, run one of these lengths, and compare.

        `counts` is what the function is told, where that is not what was accepted.
        """
        for row, number in enumerate(accepted):
            fresh = self.pending[row][:number]
            self.certain[row] = torch.cat([self.certain[row], fresh])
        self.pending = [self.tokens(length) for length in lengths]
        batch = torch.cat(self.pending)
        starts = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
        metadata = SimpleNamespace(
            num_spec_decodes=len(lengths),
            spec_state_indices_tensor=self.table,
            spec_query_start_loc=starts,
            num_accepted_tokens=torch.tensor(counts or accepted, dtype=torch.int32),
        )
        out = gdn_attention._spec_forward(  # noqa: SLF001 - the function that is patched
            self.layer,
            metadata,
            batch[:, :DIM].contiguous(),
            batch[:, DIM + 1 :].contiguous(),
            batch[:, DIM : DIM + 1].contiguous(),
            self.conv.transpose(1, 2),
            self.states,
            WIDTH,
            STATE_LEN,
        )
        for row, length in enumerate(lengths):
            text = torch.cat([self.certain[row], self.pending[row]])
            wanted = self.expected(text)[0][len(text) - length :]
            torch.testing.assert_close(
                out[starts[row] : starts[row + 1], 0].double(),
                wanted,
                rtol=4e-2,
                atol=4e-2,
            )
