# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project

"""
Contains replacement functions to fallback Triton usages in CPU backend
"""

from collections.abc import Callable

import torch


class _FuncWrapper:
    def __init__(self, func: Callable) -> None:
        self.func = func

    def __getitem__(self, *args, **kwargs) -> Callable:
        return self.func


def _ensure_int64(t: torch.Tensor) -> torch.Tensor:
    return t if t.dtype == torch.int64 else t.to(torch.int64)


def _expand_kernel_impl(
    output,
    input_val,
    cu_num_tokens,
    replace_from,
    replace_to,
    MAX_NUM_TOKENS=None,
):
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


expand_kernel = _FuncWrapper(_expand_kernel_impl)
