from __future__ import annotations

import math
import random
from statistics import variance

import pytest

from tests.commands.bench.records import point, record, validated
from vpatch.commands.bench.summary import (
    JUDGED,
    THROUGHPUT,
    Ratio,
    between,
    rows_of,
    sides_of,
    speed_ups,
)
from vpatch.harness.predict import Counters


def test_repeats_are_taken_together():
    rows = rows_of(validated(record(ks=(0, 2), concurrency=(1,), accepted=0.5)))
    without, with_two = rows
    assert (without.key.k, with_two.key.k) == (0, 2)
    assert without.mean(THROUGHPUT) == pytest.approx(100)
    assert without.spread(THROUGHPUT) == pytest.approx(1)
    assert without.mean("ttft p99") == pytest.approx(12 * 1.49)
    assert len(without.quantiles("e2el")) == 101
    assert without.quantiles("ttft")[100] == pytest.approx(18)
    assert without.counters is None
    # 16 requests in each of three repeats; half of the first drafts accepted, and of these half.
    assert with_two.counters == Counters(528, 1056, 396, (264, 132))
    assert (with_two.counters.rate, with_two.counters.length) == (0.375, 1.75)


def test_rows_are_in_the_order_of_the_plan():
    found = record(ks=(0, 1), concurrency=(4, 16), models=("z", "a"), sides=(1, 1))
    keys = [row.key for row in rows_of(validated(found))]
    assert [key.model for key in keys[::8]] == ["z", "a"]
    assert [(key.concurrency, key.k, key.side) for key in keys[:4]] == [
        *((4, 0, 0), (4, 0, 1)),
        *((4, 1, 0), (4, 1, 1)),
    ]
    backwards = found | {"points": found["points"][::-1]}
    assert sorted(row.key for row in rows_of(validated(backwards))) == sorted(keys)


def test_a_speed_up_with_its_spread():
    found = speed_ups(rows_of(validated(record(ks=(0, 1, 2), concurrency=(1,), gain=0.5))))
    assert [key.k for key in found] == [1, 2]
    one, two = found.values()
    assert one.value == pytest.approx(1.5)
    assert two.value == pytest.approx(2)
    assert one.low < 1.5 < one.high
    assert one.verdict == two.verdict == "better"
    assert str(one) == f"1.50x [{one.low:.2f}, {one.high:.2f}]"


def speed_up_of(base, other):
    """The one of k=1 over k=0, whose repeats had these output tokens a second."""
    points = [
        point(speed, k=k, repeat=repeat)
        for k, speeds in ((0, base), (1, other))
        for repeat, speed in enumerate(speeds)
    ]
    (ratio,) = speed_ups(rows_of(validated(record() | {"points": points}))).values()
    return ratio


def test_an_interval_is_that_of_welch():
    """By the textbook: t with 4 degrees of freedom, 97.5 % of 2.776 for one comparison."""
    base, other = (10.0, 11.0, 12.0), (20.0, 22.0, 24.0)
    ratio = speed_up_of(base, other)
    logs = [math.log(value) for value in base]
    mean = sum(logs) / 3
    error = math.sqrt(2 * sum((value - mean) ** 2 for value in logs) / 2 / 3)
    assert ratio.value == pytest.approx(2)
    assert ratio.low == pytest.approx(2 * math.exp(-2.7764 * error), rel=1e-4)
    assert ratio.high == pytest.approx(2 * math.exp(2.7764 * error), rel=1e-4)


def test_sides_that_spread_differently():
    """By Welch and Satterthwaite: the degrees of freedom are fewer than four."""
    base, other = (100.0, 101.0, 99.0), (150.0, 200.0, 260.0)
    ratio = speed_up_of(base, other)
    parts = [variance(map(math.log, speeds)) / 3 for speeds in (base, other)]
    freedom = sum(parts) ** 2 / sum(part**2 / 2 for part in parts)
    assert freedom == pytest.approx(2.00528502)
    width = 4.2918041084 * math.sqrt(sum(parts))
    assert ratio.low == pytest.approx(ratio.value * math.exp(-width))
    assert ratio.high == pytest.approx(ratio.value * math.exp(width))


def test_a_difference_within_the_noise_is_none():
    found = speed_ups(rows_of(validated(record(ks=(0, 1), gain=0.005))))
    assert {ratio.verdict for ratio in found.values()} == {"within the noise"}
    worse = speed_ups(rows_of(validated(record(ks=(0, 1), gain=-0.3))))
    assert {ratio.verdict for ratio in worse.values()} == {"worse"}


def test_fewer_than_three_repeats_are_not_judged():
    for repeats, verdict in ((1, "not judged"), (2, "not judged"), (3, "better")):
        found = speed_ups(rows_of(validated(record(ks=(0, 1), repeats=repeats))))
        assert {ratio.verdict for ratio in found.values()} == {verdict}
    (ratio, *_) = speed_ups(rows_of(validated(record(ks=(0, 1), repeats=2)))).values()
    assert (ratio.low, ratio.high, str(ratio)) == (None, None, "1.30x")


def test_repeats_that_are_all_alike():
    points = [point(speed, k=k, repeat=r) for k, speed in ((0, 10.0), (1, 20.0)) for r in range(3)]
    (ratio,) = speed_ups(rows_of(validated(record() | {"points": points}))).values()
    assert (ratio.low, ratio.high, ratio.verdict) == (ratio.value, ratio.value, "better")


def test_repeats_of_one_side_that_are_all_alike():
    points = [point(speed, k=0, repeat=r) for r, speed in enumerate((100.0,) * 3)]
    points += [point(speed, k=1, repeat=r) for r, speed in enumerate((130.0, 130.1, 129.9))]
    (ratio,) = speed_ups(rows_of(validated(record() | {"points": points}))).values()
    assert ratio.verdict == "better"


def test_a_time_that_no_clock_can_tell_has_no_ratio():
    found = record(ks=(0,), concurrency=(1,), sides=(1, 1))
    found["points"][0]["measured"]["latency_ms"]["tpot"]["mean"] = 0.0
    ratios = between(sides_of(rows_of(validated(found))))
    assert {figure for _, figure in ratios} == set(JUDGED) - {"tpot mean"}


def test_what_lies_just_beyond_1_does_not_look_as_if_it_were_1():
    assert str(Ratio(1.13, 1.0004, 1.27, "better")) == "1.1300x [1.0004, 1.2700]"
    assert str(Ratio(1.13, 1.004, 1.27, "within the noise")) == "1.13x [1.00, 1.27]"


@pytest.mark.slow
def test_the_same_twice_is_hardly_ever_called_different():
    """All of a table together are wrong in one of twenty: 24 comparisons of nothing, 30 times."""
    chance = random.Random(7)
    wrong = 0
    for _ in range(30):
        found = record(ks=(0, 1, 2, 3), concurrency=(1, 4, 8), sides=(1, 1))
        for one in found["points"]:
            run = one["measured"]
            run[THROUGHPUT] = 100 * math.exp(chance.gauss(0, 0.02))
            for latency in run["latency_ms"].values():
                latency["mean"] = 10 * math.exp(chance.gauss(0, 0.02))
        ratios = between(sides_of(rows_of(validated(found))))
        assert len(ratios) == 12 * len(JUDGED)
        wrong += any(ratio.verdict != "within the noise" for ratio in ratios.values())
    assert wrong <= 3, f"{wrong} of 30 tables call something a difference that is none"


def test_sides_against_the_first():
    found = record(ks=(0, 1), concurrency=(1,), sides=(1, 1.2, 0.8))
    ratios = between(sides_of(rows_of(validated(found))))
    verdicts = {
        (key.side, figure): ratio.verdict for (key, figure), ratio in ratios.items() if key.k
    }
    assert verdicts[1, THROUGHPUT] == "better"
    assert verdicts[2, THROUGHPUT] == "worse"
    # Less of a latency is better.
    assert ratios[next(iter(ratios))[0], "tpot mean"].value < 1
    assert verdicts[1, "tpot mean"] == verdicts[1, "e2el mean"] == "better"
    assert verdicts[2, "tpot mean"] == "worse"
    assert verdicts[1, "ttft mean"] == "within the noise"


def test_servers_with_one_k_each_are_set_against_each_other():
    points = [point(100.0, k=0), point(200.0, k=2, side=1)]
    both = record(sides=(1.0, 1.0)) | {"points": points}
    ((key, (base, other)),) = sides_of(rows_of(validated(both))).items()
    assert (key.k, key.side, base.key.k, other.key.k) == (2, 1, 0, 2)
    points.append(point(150.0, k=1, side=1))
    assert sides_of(rows_of(validated(both))) == {}


def test_what_could_not_be_measured():
    points = [point(100.0, k=0), point(None, k=1), point(None, k=1, repeat=1), point(None, k=0)]
    points[1]["fault"]["cause"] = "out of memory"
    without, with_one = rows_of(validated(record() | {"points": points}))
    assert len(without.runs) == len(without.faults) == 1
    assert with_one.mean(THROUGHPUT) is None
    assert with_one.faults == (
        "does not start: the server ended with 1 (out of memory)",
        "does not start: the server ended with 1",
    )
    assert speed_ups([without, with_one]) == {}
