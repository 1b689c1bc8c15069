# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Operators of `_C` that vLLM's modules name on import, and a build may lack.

The fusion passes look up `torch.ops._C.NAME.default` when they are imported, whether
or not a pass is on. A build that looks like CUDA and has fewer kernels dies there. Here
such operators are declared, so that the modules can be imported; a call of one raises
NotImplementedError.

What exists is left alone, so that a build which has everything gets nothing. An
operator by which vLLM asks what a build can do (`hasattr(torch.ops._C, NAME)`) is never
declared, only the missing overload of one that exists. The one exception is
static_scaled_fp8_quant: rope_kvcache_fusion asks for it from 0.23, but only after
matcher_utils has named it without asking.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

import torch

from vllm.logger import init_logger
from vllm.platforms import current_platform

logger = init_logger(__name__)

_NAMESPACE = "_C"

# The arguments of each operator; all return nothing. They are those of the files
# torch_bindings.cpp in csrc/ of vLLM 0.20 to 0.33. Two differ between releases, and are
# here in the form that takes the arguments of all: the weight of fused_add_rms_norm may
# be None from 0.24, and the group_shape of static_scaled_fp8_quant is a pair of int
# until 0.21, and a list since.
_NAMED_ON_IMPORT = {
    "rotary_embedding": "Tensor positions, Tensor! query, Tensor!? key, int head_size, "
    "Tensor cos_sin_cache, bool is_neox, int rope_dim_offset=0, bool inverse=False",
    "fused_add_rms_norm": "Tensor! input, Tensor! residual, Tensor? weight, "
    "float epsilon",
    "silu_and_mul": "Tensor! result, Tensor input",
    "static_scaled_fp8_quant": "Tensor! result, Tensor input, Tensor scale, "
    "int[]? group_shape=None",
    "dynamic_scaled_fp8_quant": "Tensor! result, Tensor input, Tensor! scale",
    "dynamic_per_token_scaled_fp8_quant": "Tensor! result, Tensor input, "
    "Tensor! scale, Tensor? scale_ub",
    "rms_norm_static_fp8_quant": "Tensor! result, Tensor input, Tensor weight, "
    "Tensor scale, float epsilon",
    "fused_add_rms_norm_static_fp8_quant": "Tensor! result, Tensor input, "
    "Tensor! residual, Tensor weight, Tensor scale, float epsilon",
    "rms_norm_dynamic_per_token_quant": "Tensor! result, Tensor input, Tensor weight, "
    "Tensor! scale, float epsilon, Tensor? scale_ub, Tensor!? residual",
    "silu_and_mul_quant": "Tensor! result, Tensor input, Tensor scale",
    "fused_qk_norm_rope": "Tensor! qkv, int num_heads_q, int num_heads_k, "
    "int num_heads_v, int head_dim, float eps, Tensor q_weight, Tensor k_weight, "
    "Tensor cos_sin_cache, bool is_neox, Tensor position_ids, "
    "int forced_token_heads_per_warp=-1",
}
# Named on platforms that look like CUDA, and only there.
_ON_CUDA_ALIKE = {
    "silu_and_mul_per_block_quant": "Tensor! out, Tensor input, Tensor! scales, "
    "int group_size, Tensor? scale_ub=None, bool is_scale_transposed=False",
}
# Named without asking until 0.25.
_PER_BLOCK_QUANT = {
    "rms_norm_per_block_quant": "Tensor! result, Tensor input, Tensor weight, "
    "Tensor! scale, float epsilon, Tensor? scale_ub, Tensor!? residual, "
    "int group_size, bool is_scale_transposed",
}
_FP4_OUT = {
    "scaled_fp4_quant.out": "Tensor input, Tensor input_scale, "
    "bool is_sf_swizzled_layout, *, Tensor(a!) output, Tensor(b!) output_scale",
}


def provide_fusion_operators(*, per_block_quant: bool = False) -> None:
    """Declare what the fusion passes name on import, where it is missing.

    The platform's kernels are loaded first: a library that registers an operator which
    is declared already ends the process.

    Args:
        per_block_quant: rms_norm_per_block_quant too, where vLLM does not ask for it.

    """
    current_platform.import_kernels()
    operators = dict(_NAMED_ON_IMPORT)
    if current_platform.is_cuda_alike():
        operators |= _ON_CUDA_ALIKE
    if per_block_quant:
        operators |= _PER_BLOCK_QUANT
    _declare(operators)
    provide_fp4_out_overload()


def provide_fp4_out_overload() -> None:
    """Declare scaled_fp4_quant.out where there is a scaled_fp4_quant without it.

    To be called when the platform's kernels are loaded.
    """
    if _exists("scaled_fp4_quant"):
        _declare(_FP4_OUT)


def _exists(name: str) -> bool:
    base, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops, _NAMESPACE), base, None)
    return hasattr(operator, overload or "default")


@cache
def _library() -> torch.library.Library:
    """Kept for good: when it goes, PyTorch forgets what was declared."""
    return torch.library.Library(_NAMESPACE, "FRAGMENT")


def _declare(operators: Mapping[str, str]) -> None:
    missing = [name for name in operators if not _exists(name)]
    for name in missing:
        _library().define(f"{name}({operators[name]}) -> ()")
        # For every device, and behind any kernel that is registered for one.
        _library().impl(name, _unimplemented(name), "CompositeExplicitAutograd")
    if missing:
        logger.warning(
            "This build lacks operators that vLLM names on import. They are declared, "
            "and raise NotImplementedError when called: %s. Keep fuse_norm_quant, "
            "fuse_act_quant and enable_qk_norm_rope_fusion off.",
            ", ".join(missing),
        )


def _unimplemented(name: str) -> Callable[..., NoReturn]:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"_C::{name} is not in this build: it is only declared, so that vLLM's "
            "fusion passes can be imported. If a fusion pass emitted it, turn that off "
            "in the compilation config's pass_config: fuse_norm_quant, fuse_act_quant "
            "or enable_qk_norm_rope_fusion."
        )

    return call
