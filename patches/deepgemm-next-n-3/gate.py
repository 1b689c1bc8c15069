# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Which engines split three query rows; goes into vLLM's indexer.py, with its names."""

from vllm.config import VllmConfig
from vllm.platforms import current_platform
from vllm.utils.deep_gemm import has_deep_gemm
from vllm.v1.attention.backends.mla.next_n_3 import NEXT_N


def _splits_next_n_3(vllm_config: VllmConfig) -> bool:
    """Whether decode steps with two draft tokens can run as 2 + 1 rows per request.

    Adaptive verification stays flattened, as the host does not know its query
    lengths, and so does context parallelism, where this has not been tried.
    """
    speculative_config = vllm_config.speculative_config
    parallel_config = vllm_config.parallel_config
    return (
        speculative_config is not None
        and 1 + speculative_config.num_speculative_tokens == NEXT_N
        and not getattr(speculative_config, "enable_adaptive_verification", False)
        and parallel_config.decode_context_parallel_size == 1
        and parallel_config.prefill_context_parallel_size == 1
        and current_platform.is_cuda()
        and current_platform.is_device_capability_family(90)
        and has_deep_gemm()
    )
