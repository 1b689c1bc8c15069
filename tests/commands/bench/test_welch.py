"""Welch's interval beside the one of scipy, which wrote `welch.json` once.

An interval there is `ttest_ind(other, base, equal_var=False).confidence_interval(1 - wrong)`,
and a bound is `-scipy.special.stdtrit(freedom, outside / 2)`.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import StatisticsError

import pytest

from vpatch.commands.bench.welch import _t_bound, welch_interval

NEAR = 1e-9


@pytest.fixture(scope="module")
def of_scipy():
    return json.loads(Path(__file__).with_name("welch.json").read_text(encoding="utf-8"))


def test_intervals_are_those_of_scipy(of_scipy):
    cases = of_scipy["intervals"]
    assert len(cases) > 300
    for case in cases:
        interval = welch_interval(case["base"], case["other"], case["wrong"])
        assert interval == pytest.approx(case["interval"], rel=NEAR, abs=0), case


def test_bounds_are_those_of_scipy(of_scipy):
    for case in of_scipy["bounds"]:
        bound = _t_bound(case["freedom"], case["outside"])
        assert bound == pytest.approx(case["bound"], rel=NEAR, abs=0), case


def test_samples_without_a_spread_have_an_exact_difference():
    assert welch_interval([1.5] * 3, [4.0] * 5, 0.05) == (2.5, 2.5)


def test_a_spread_whose_square_is_0_is_a_spread():
    low, high = welch_interval([0.0, 1e-85, 2e-85], [1e-85] * 3, 0.05)
    assert low == -high == pytest.approx(-4.30265273e-85 / 3**0.5, rel=1e-8, abs=0)


@pytest.mark.parametrize("samples", [([1.0], [1.0, 2.0]), ([1.0, 2.0], [])])
def test_one_value_has_no_spread(samples):
    with pytest.raises(StatisticsError):
        welch_interval(*samples, 0.05)
