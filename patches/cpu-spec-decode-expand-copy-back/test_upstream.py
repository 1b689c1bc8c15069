# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""For upstream: the CPU's expand_kernel writes to the tensor that it is given."""

import pytest
import torch

from vllm.platforms import current_platform
from vllm.utils.cpu_triton_utils import _expand_kernel_impl


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (torch.tensor([0.7, 0.0, 1.5]), [0.7, 0.7, 1.0, 1.5, 1.5]),
        (torch.tensor([50, 0, 3], dtype=torch.int32), [50, 50, 1, 3, 3]),
    ],
    ids=["float32", "int32"],
)
def test_cpu_expand_kernel_writes_callers_dtype(values, expected):
    """Temperature and top_p come as float32, top_k as int32."""
    current_platform.import_kernels()
    output = torch.full((len(expected),), -1, dtype=values.dtype)
    cu_num_tokens = torch.tensor([2, 3, 5], dtype=torch.int32)

    _expand_kernel_impl(output, values, cu_num_tokens, replace_from=0, replace_to=1)

    wanted = torch.tensor(expected, dtype=values.dtype)
    torch.testing.assert_close(output, wanted, rtol=0, atol=0)
