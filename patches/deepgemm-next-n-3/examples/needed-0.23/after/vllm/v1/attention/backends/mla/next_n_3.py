# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Three query rows per request (two draft tokens) as two DeepGEMM calls, of 2 and 1.

On SM90, DeepGEMM's paged MQA logits kernel takes 1 or 2 query rows per request, later
versions also 4 (smxx_fp8_fp4_paged_mqa_logits.hpp; vllm-project/vllm#36982, #52164).
The indexer therefore flattens 3 rows to three requests of one row, and each of them
reads the request's keys again. Here the flattened rows are grouped by request once
more and split as 2 + 1, which reads the keys twice.

The flattened metadata stays as it is, for code that knows nothing of this, and for
steps that cannot be split. In shapes, R is the number of requests, padding included,
so that there are 3R flattened rows; W is the width of the block table, and S the
number of slots that the kernel is scheduled on (SMs).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

NEXT_N = 3
# The columns of [R, 3] that each call takes.
COLUMNS = (slice(0, 2), slice(2, 3))


@dataclass
class CallRows:
    """What DeepGEMM is told about the rows of one call, n = 1 or 2 for each request.

    The names are those of DeepSeekV32IndexerDecodeMetadata, so that either will do.
    """

    seq_lens: torch.Tensor
    """[R, n] int32, contiguous: how many keys each row attends to."""
    block_table: torch.Tensor
    """[R, W] int32: the cache blocks of each request, every third flattened row."""
    schedule_metadata: torch.Tensor
    """[S + 1, 2] int32: where each slot begins, for these lengths."""
    indices: None = None
    global_seq_lens: None = None
    """Rows that have either of these are not split."""


class FlatRows(Protocol):
    """What is used here of DeepSeekV32IndexerDecodeMetadata."""

    seq_lens: torch.Tensor
    block_table: torch.Tensor
    schedule_metadata: torch.Tensor
    indices: torch.Tensor | None
    global_seq_lens: torch.Tensor | None
    requires_padding: bool
    next_n_3: tuple[CallRows, CallRows] | None


class DecodeCall(NamedTuple):
    """One paged MQA logits call, and where its top-k goes."""

    rows: CallRows | FlatRows
    q: torch.Tensor
    """[R, n, H, D], contiguous."""
    q_scale: torch.Tensor | None
    """[R, n, ...], contiguous; None unless q is FP4."""
    weights: torch.Tensor
    """[at least R * n, H] float32, contiguous, request-major."""
    topk_indices: torch.Tensor
    """[at least R * n, K] int32, request-major."""


class NextN3Buffers:
    """The tensors that hold the split metadata of every step.

    CUDA graphs read them at the addresses that they were captured with, so they are
    made once, and each step writes into them.
    """

    def __init__(self, max_rows: int, num_slots: int, device: torch.device) -> None:
        """Allocate for steps of up to `max_rows` flattened rows, and `num_slots`."""
        requests = max_rows // NEXT_N
        self.seq_lens = tuple(
            torch.zeros(
                requests * (columns.stop - columns.start),
                dtype=torch.int32,
                device=device,
            )
            for columns in COLUMNS
        )
        self.schedules = torch.zeros(
            (len(COLUMNS), num_slots + 1, 2), dtype=torch.int32, device=device
        )

    def update(
        self,
        seq_lens: torch.Tensor,
        block_table: torch.Tensor,
        decode_lens_cpu: torch.Tensor,
        schedule: Callable[[torch.Tensor], torch.Tensor],
    ) -> tuple[CallRows, CallRows] | None:
        """Group one step's flattened rows by request, and split them.

        A step can be split if every request has three rows. Padding requests have
        none; rows of length 0 behind the others make up for them.

        Args:
            seq_lens: [3R, 1] int32, the flattened rows' lengths, in the units that the
                kernel counts keys in (compressed ones for DeepSeek-V4).
            block_table: [3R, W] int32, of the same rows.
            decode_lens_cpu: [requests] integers on the host, the rows of each request.
            schedule: makes the [S + 1, 2] schedule of lengths of shape [R, n].

        Returns:
            What the two calls need, or None where the step stays flattened.

        """
        rows = seq_lens.shape[0]
        num_real = int(decode_lens_cpu.sum())
        whole = bool(((decode_lens_cpu == NEXT_N) | (decode_lens_cpu == 0)).all())
        if not whole or num_real == 0 or rows % NEXT_N:
            self._clear()
            return None
        if num_real > rows or block_table.shape[0] != rows:
            raise ValueError(
                f"next_n = 3: {decode_lens_cpu.tolist()} rows of requests do not fit "
                f"lengths of shape {tuple(seq_lens.shape)} and a block table of shape "
                f"{tuple(block_table.shape)}"
            )
        by_request = seq_lens.view(-1, NEXT_N)
        calls = []
        for columns, storage, slots in zip(
            COLUMNS, self.seq_lens, self.schedules, strict=True
        ):
            lens = by_request[:, columns]
            # A graph of more requests than the step has reads on.
            storage[lens.numel() :] = 0
            own_lens = storage[: lens.numel()].view(lens.shape)
            # The kernel reads lengths as unsigned, and would take those below zero,
            # which some releases make for empty requests, as huge.
            torch.clamp(lens, min=0, out=own_lens)
            made = schedule(own_lens)
            if made.shape != slots.shape:
                raise ValueError(
                    f"next_n = 3: the schedule of lengths of shape "
                    f"{tuple(own_lens.shape)} has the shape {tuple(made.shape)}, "
                    f"and not {tuple(slots.shape)}"
                )
            slots.copy_(made)
            calls.append(CallRows(own_lens, block_table[::NEXT_N], slots))
        return calls[0], calls[1]

    def _clear(self) -> None:
        """Leave nothing to do.

        A CUDA graph of a split step may be replayed on another step: a dummy one, as
        data parallelism has them. It then reads no keys at all.
        """
        for storage in self.seq_lens:
            storage.zero_()
        # Every slot ends where it begins.
        self.schedules.zero_()


def decode_calls(
    decode: FlatRows,
    q: torch.Tensor,
    q_scale: torch.Tensor | None,
    weights: torch.Tensor,
    topk_indices: torch.Tensor,
    *,
    split: bool = True,
) -> Iterator[DecodeCall]:
    """Yield the paged MQA logits calls of a decode step, and join what they select.

    Args:
        decode: the step's metadata. Without `next_n_3` there is one call, with
            everything as it came.
        q: [3R, 1, H, D], the flattened queries, request-major.
        q_scale: [3R, 1, ...], their scales, or None unless q is FP4.
        weights: [at least 3R, H] float32.
        topk_indices: [at least 3R, K] int32, request-major. The caller writes each
            call's top-k into the `topk_indices` of that call, which holds what stood
            here; behind the last call all of it stands here.
        split: whether the rows may be taken apart.

    """
    if decode.next_n_3 is None or not split:
        yield DecodeCall(decode, q, q_scale, weights, topk_indices)
        return
    num_requests = decode.next_n_3[0].seq_lens.shape[0]
    rows = NEXT_N * num_requests
    per_row = [getattr(decode, name, None) for name in ("indices", "global_seq_lens")]
    if (
        decode.requires_padding
        or q.shape[:2] != (rows, 1)
        or any(tensor is not None for tensor in per_row)
    ):
        raise ValueError(
            f"next_n = 3: {rows} plain query rows are to be split, but there are "
            f"{tuple(q.shape)} ({decode.requires_padding=}, {per_row=})"
        )
    by_request = topk_indices[:rows].view(num_requests, NEXT_N, -1)
    calls = [
        DecodeCall(
            part,
            _of_requests(q[:, 0], columns),
            None if q_scale is None else _of_requests(q_scale[:, 0], columns),
            _of_requests(weights[:rows], columns).flatten(0, 1),
            # The rows of one request are side by side; others are copied, as a top-k
            # kernel takes its rows to be.
            by_request[0, columns]
            if num_requests == 1
            else by_request[:, columns].contiguous().flatten(0, 1),
        )
        for part, columns in zip(decode.next_n_3, COLUMNS, strict=True)
    ]
    yield from calls
    if num_requests > 1:
        for call, columns in zip(calls, COLUMNS, strict=True):
            out = by_request[:, columns]
            out.copy_(call.topk_indices.view(out.shape))


def _of_requests(flat: torch.Tensor, columns: slice) -> torch.Tensor:
    """Rows [3R, ...] as [R, n, ...], contiguous: of each request those in `columns`."""
    return flat.view(-1, NEXT_N, *flat.shape[1:])[:, columns].contiguous()
