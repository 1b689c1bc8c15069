"""The CPU's stand-in for the kernel that expands each request's value to its tokens."""

import torch


def _expand_kernel_impl(
    output: torch.Tensor,
    input_val: torch.Tensor,
    cu_num_tokens: torch.Tensor,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,  # noqa: ARG001, N803 - the kernel's signature
) -> None:
    """Write each request's value to all of its tokens.

    `output` is [num_tokens] of any dtype, and written in place; `input_val` is
    [batch_size] of the same dtype, `cu_num_tokens` [batch_size] of integers, the
    cumulative number of tokens. What equals `replace_from` becomes `replace_to`.
    """
    # C++ takes int64 alone, and what it writes to a converted copy is lost.
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    values = input_val.masked_fill(input_val == replace_from, replace_to)
    expanded = torch.repeat_interleave(values, counts)
    output[: expanded.shape[0]] = expanded
