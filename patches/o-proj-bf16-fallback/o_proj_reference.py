"""DeepSeek-V4's O projection written down a second time, to test the first against.

Float64, complex numbers and loops, where the patch has float32, pairs of lanes and one
batched matrix product.
"""

from dataclasses import dataclass
from itertools import product

import torch


@dataclass(frozen=True)
class Case:
    """One attention output and what it is multiplied with, on one rank.

    `o` is [T, H, D] bf16, a slice of a buffer with more heads; `positions` [T] int64;
    `cos_sin_cache` [max_position, R] fp32; `weight` [G * rank, H / G * D] bf16, flat as
    the checkpoint has it.
    """

    o: torch.Tensor
    positions: torch.Tensor
    cos_sin_cache: torch.Tensor
    weight: torch.Tensor
    n_groups: int
    nope_dim: int
    rank: int

    @property
    def rope_dim(self) -> int:
        return int(self.cos_sin_cache.shape[1])

    @property
    def heads_per_group(self) -> int:
        return int(self.o.shape[1]) // self.n_groups


def random_case(  # noqa: PLR0913 - a name for each size
    seed: int,
    *,
    tokens: int,
    n_groups: int = 2,
    heads_per_group: int = 4,
    nope_dim: int = 448,
    rope_dim: int = 64,
    rank: int = 48,
    spare_heads: int = 3,
    device: str = "cpu",
) -> Case:
    """Draw a case; the heads behind its own are NaN, so that nothing may read them."""
    generator = torch.Generator().manual_seed(seed)
    n_heads, head_dim, max_position = (
        n_groups * heads_per_group,
        nope_dim + rope_dim,
        8192,
    )
    buffer = torch.full(
        (tokens, n_heads + spare_heads, head_dim), torch.nan, dtype=torch.bfloat16
    )
    o = buffer[:, :n_heads]
    o.copy_(torch.randn(o.shape, generator=generator))
    frequencies = 10000.0 ** (
        -torch.arange(0, rope_dim, 2, dtype=torch.float32) / rope_dim
    )
    angles = torch.arange(max_position, dtype=torch.float32)[:, None] * frequencies
    width = heads_per_group * head_dim
    weight = torch.randn(n_groups * rank, width, generator=generator) / width**0.5
    return Case(
        o=buffer.to(device)[:, :n_heads],
        positions=torch.randint(max_position, (tokens,), generator=generator).to(
            device
        ),
        cos_sin_cache=torch.cat([angles.cos(), angles.sin()], dim=1).to(device),
        weight=weight.to(device=device, dtype=torch.bfloat16),
        n_groups=n_groups,
        nope_dim=nope_dim,
        rank=rank,
    )


def turned_back(case: Case) -> torch.Tensor:
    """Every head with its rotation undone, [T, H, D] float64, not rounded."""
    half = case.rope_dim // 2
    rows = case.cos_sin_cache[case.positions].double()
    turn = torch.complex(rows[:, :half], rows[:, half:])
    lanes = case.o[..., case.nope_dim :].double()
    numbers = torch.complex(lanes[..., 0::2], lanes[..., 1::2])
    back = torch.view_as_real(numbers * turn.conj()[:, None, :]).flatten(-2)
    return torch.cat([case.o[..., : case.nope_dim].double(), back], dim=-1)


def projected(case: Case) -> torch.Tensor:
    """What wo_b is given, [T, G * rank], float64 of bf16 factors."""
    heads = turned_back(case).to(torch.bfloat16).double()
    z = heads.new_zeros(case.o.shape[0], case.n_groups, case.rank)
    for token, group in product(range(case.o.shape[0]), range(case.n_groups)):
        first = group * case.heads_per_group
        row = torch.cat(
            [heads[token, first + head] for head in range(case.heads_per_group)]
        )
        block = case.weight[group * case.rank : (group + 1) * case.rank].double()
        z[token, group] = block @ row
    return z.reshape(case.o.shape[0], case.n_groups * case.rank)


def assert_near(actual: torch.Tensor, wanted: torch.Tensor, *, sums: int = 1) -> None:
    """Accept what rounding to bf16 makes, of `actual` and of a few lanes before it.

    With `sums`, `actual` may be the sum of so many parts that were rounded as well.
    """
    if actual.dtype != torch.bfloat16 or actual.shape != wanted.shape:
        raise AssertionError(f"{actual.dtype} {actual.shape}, not bf16 {wanted.shape}")
    allowed = sums * (2.0**-8 * wanted.abs() + 2.0**-9)
    outside = (actual.double() - wanted).abs() > allowed
    if outside.any() or actual.isnan().any():
        worst = ((actual.double() - wanted).abs() / allowed).max()
        raise AssertionError(f"{float(worst):.2f} times what rounding may make")
