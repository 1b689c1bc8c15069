"""The O projection on a GPU: the real kernels, graphs, torch.compile, and the times.

DeepSeek-V4-Flash's sizes: 64 heads of 448 + 64 lanes in 8 groups, of rank 1024. The
times are a table that test_times prints.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from o_proj_reference import Case, assert_near, projected, random_case
from torch import nn

from vllm.model_executor.layers.quantization.utils.fp8_utils import (
    deepgemm_post_process_fp8_weight_block,
)
from vllm.models.deepseek_v4.nvidia.ops.o_proj import (
    compute_fp8_einsum_recipe,
    deep_gemm_fp8_o_proj,
)
from vllm.utils.deep_gemm import (
    is_deep_gemm_e8m0_used,
    is_deep_gemm_supported,
    per_block_cast_to_fp8,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_deep_gemm = pytest.mark.skipif(
    not is_deep_gemm_supported(), reason="DeepGEMM needs a Hopper or Blackwell GPU"
)

FLASH = {"n_groups": 8, "heads_per_group": 8, "rank": 1024, "device": "cuda"}
# What a split of the sum over 4096 lanes into bf16 parts may add to the rounding.
SUMS = 4


class Linear(nn.Module):
    """A linear layer as the O projection sees it: named parameters, and a call."""

    def __init__(self, **parameters: torch.Tensor) -> None:
        super().__init__()
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value, requires_grad=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def project(case: Case, wo_a: nn.Module, function=deep_gemm_fp8_o_proj) -> torch.Tensor:
    recipe, tma_aligned_scales = compute_fp8_einsum_recipe()
    return function(
        case.o,
        case.positions,
        case.cos_sin_cache,
        wo_a,
        Linear(),
        n_groups=case.n_groups,
        heads_per_group=case.heads_per_group,
        nope_dim=case.nope_dim,
        rope_dim=case.rope_dim,
        o_lora_rank=case.rank,
        einsum_recipe=recipe,
        tma_aligned_scales=tma_aligned_scales,
    )


def fp8_layer(case: Case, name: str) -> Linear:
    """wo_a as the DeepGEMM linear kernel leaves it after loading."""
    e8m0 = is_deep_gemm_e8m0_used()
    weight, scale = deepgemm_post_process_fp8_weight_block(
        *per_block_cast_to_fp8(case.weight, use_ue8m0=e8m0),
        quant_block_shape=(128, 128),
        use_e8m0=e8m0,
        is_bmm=True,
        bmm_batch_size=case.n_groups,
    )
    return Linear(weight=weight, **{name: scale})


def assert_fp8(case: Case, result: torch.Tensor) -> None:
    """Accept what FP8 with a scale for 128 lanes makes of both factors: about 4 %."""
    wanted = projected(case)
    assert result.dtype == torch.bfloat16
    assert result.shape == wanted.shape
    assert (result.double() - wanted).norm() < 0.06 * wanted.norm()


# --- an FP8 wo_a ----------------------------------------------------------------------


@needs_deep_gemm
@pytest.mark.parametrize("tokens", [1, 5, 64])
def test_fp8(tokens):
    case = random_case(tokens, tokens=tokens, **FLASH)
    assert_fp8(case, project(case, fp8_layer(case, "weight_scale_inv")))


@needs_deep_gemm
def test_fp8_scale_under_its_other_name():
    case = random_case(2, tokens=16, **FLASH)
    result = project(case, fp8_layer(case, "weight_scale"))
    assert_fp8(case, result)
    assert torch.equal(result, project(case, fp8_layer(case, "weight_scale_inv")))


# --- an unquantised wo_a --------------------------------------------------------------


@pytest.mark.parametrize("tokens", [0, 1, 2, 17, 64])
@pytest.mark.parametrize("spare_heads", [0, 64])
def test_unquantised(tokens, spare_heads):
    case = random_case(tokens, tokens=tokens, spare_heads=spare_heads, **FLASH)
    for weight in (case.weight, case.weight.view(case.n_groups, case.rank, -1)):
        result = project(case, Linear(weight=weight))
        assert_near(result, projected(case), sums=SUMS)


def test_unquantised_prefill():
    """Many tokens take other kernels than few; a few of their rows are looked at."""
    tokens = 8192
    case = random_case(3, tokens=1, **FLASH)
    case = replace(
        case,
        o=torch.randn(tokens, 64, 512, device="cuda", dtype=torch.bfloat16),
        positions=torch.randint(8192, (tokens,), device="cuda"),
    )
    result = project(case, Linear(weight=case.weight))
    rows = torch.tensor([0, 1, 127, 128, 4095, 4096, tokens - 1], device="cuda")
    part = replace(case, o=case.o[rows], positions=case.positions[rows])
    assert_near(result[rows], projected(part), sums=SUMS)


def test_in_a_graph():
    """A captured graph computes anew from what its inputs hold when it is replayed."""
    case = random_case(4, tokens=8, **FLASH)
    wo_a = Linear(weight=case.weight)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        project(case, wo_a)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = project(case, wo_a)
    other = random_case(5, tokens=8, **FLASH)
    case.o.copy_(other.o)
    case.positions.copy_(other.positions)
    graph.replay()
    torch.cuda.synchronize()
    assert_near(result, projected(case), sums=SUMS)


def test_compiled():
    """Up to 0.22 torch.compile traces the O projection, for any number of tokens."""
    function = torch.compile(deep_gemm_fp8_o_proj, fullgraph=True, dynamic=True)
    for tokens in (7, 33, 1, 0):
        case = random_case(tokens, tokens=tokens, **FLASH)
        result = project(case, Linear(weight=case.weight), function)
        assert_near(result, projected(case), sums=SUMS)


# --- times ----------------------------------------------------------------------------


def microseconds(action, *, rounds: int = 50) -> float:
    """The median time of `action` on the GPU, its first runs left out."""
    spans = []
    for _ in range(rounds + 10):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        action()
        end.record()
        spans.append((start, end))
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) for start, end in spans[10:])
    return 1000 * times[len(times) // 2]


@needs_deep_gemm
def test_times(capsys):
    small = random_case(6, tokens=1, **FLASH)
    quantised, plain = (
        fp8_layer(small, "weight_scale_inv"),
        Linear(weight=small.weight),
    )
    lines = [f"{torch.cuda.get_device_name()}: O projection without wo_b, us"]
    lines += [f"{'tokens':>8} {'FP8':>10} {'BF16':>10} {'BF16/FP8':>9}"]
    for tokens in (1, 4, 16, 64, 256, 1024, 4096, 8192):
        case = replace(
            small,
            o=torch.randn(tokens, 64, 512, device="cuda", dtype=torch.bfloat16),
            positions=torch.randint(8192, (tokens,), device="cuda"),
        )
        fp8, bf16 = (
            microseconds(lambda wo_a=wo_a, case=case: project(case, wo_a))
            for wo_a in (quantised, plain)
        )
        assert bf16 > 0
        lines.append(f"{tokens:>8} {fp8:>10.1f} {bf16:>10.1f} {bf16 / fp8:>9.2f}")
    with capsys.disabled():
        print("\n" + "\n".join(lines))  # noqa: T201
