"""Between which bounds two means differ, if each sample has a spread of its own."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXACT = 1e-15


def welch_interval(
    base: Sequence[float], other: Sequence[float], wrong: float
) -> tuple[float, float]:
    """Return by how much the mean of `other` is above that of `base`: at least, and at most.

    This is the interval of Welch's t-test: https://doi.org/10.1093/biomet/34.1-2.28

    Args:
        base: at least two values.
        other: at least two values.
        wrong: the share of such intervals that miss the real difference, above 0 and below 1.

    Raises:
        statistics.StatisticsError: a sample has fewer than two values.
    """
    difference = fmean(other) - fmean(base)
    parts = [(variance(sample) / len(sample), len(sample) - 1) for sample in (base, other)]
    total = sum(square for square, _ in parts)
    if not total:
        return difference, difference
    # Shares of the total, since the square of a tiny variance may be 0.
    freedom = 1 / sum((square / total) ** 2 / degrees for square, degrees in parts)
    width = _t_bound(freedom, wrong) * math.sqrt(total)
    return difference - width, difference + width


def _t_bound(freedom: float, outside: float) -> float:
    """Return how far from 0, on either side, a share of Student's t distribution lies outside."""
    a = freedom / 2
    log_scale = math.lgamma(a + 0.5) - math.lgamma(a) - math.log(math.pi * freedom) / 2
    # The bound of the normal distribution is nearer to 0. The share outside falls ever more slowly,
    # so that Newton's steps from there come nearer to the bound and never go beyond it.
    t = -NormalDist().inv_cdf(outside / 2)
    while True:
        density = math.exp(log_scale - (a + 0.5) * math.log1p(t * t / freedom))
        # https://dlmf.nist.gov/8.17.E22 with b = 1/2
        share = density * t / a * _fraction(a, freedom / (freedom + t * t))
        step = (share - outside) / (2 * density)
        if step <= _EXACT * t:
            return t
        t += step


def _fraction(a: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function with b = 1/2.

    No coefficient is above 0, so that each further one adds a term above 0.
    """
    value = term = inverse = 1.0
    n = 0
    while term > _EXACT * value:
        n += 1
        m, is_odd = divmod(n, 2)
        factor = -(a + m) * (a + m + 0.5) if is_odd else m * (0.5 - m)
        inverse = 1 / (1 + inverse * factor * x / ((a + n - 1) * (a + n)))
        term *= inverse - 1
        value += term
    return value
