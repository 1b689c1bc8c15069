from __future__ import annotations

import pytest

from tests.commands.bench.records import point, record, validated
from tests.commands.bench.scenes import (
    LATENCIES,
    POSITIONS,
    RATE,
    SPEED_UP,
    THROUGHPUT,
    all_of,
    scene_of,
)
from vpatch.commands.bench.report import plots
from vpatch.commands.bench.report.plots import plots_of
from vpatch.commands.bench.report.svg import svg_of
from vpatch.commands.bench.summary import Ratio, rows_of, speed_ups
from vpatch.harness.predict import Counters


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    """All charts that were drawn, by the names of their pictures."""
    charts = {}

    def note(chart, size, name):
        charts[name] = chart
        return svg_of(chart, size, name)

    monkeypatch.setattr(plots, "svg_of", note)
    return charts


def of_kind(chart, kind):
    """The points of each mark of a kind, in the order in which they are drawn."""
    return [list(mark.points) for mark in chart.marks if mark.kind == kind]


def dots(chart):
    return [point for points in of_kind(chart, "dot") for point in points]


def near(expected):
    return [pytest.approx(pair) for pair in expected]


# What is drawn


def test_speed_up(drawn):
    found = record(concurrency=(1, 8), ks=(0, 1, 3))
    plot = all_of(found)[SPEED_UP]
    chart = drawn["Speed-up over k, tiny, 24/32"]
    lines = of_kind(chart, "line")
    assert [label for _, label in plot.key] == ["concurrency 1", "concurrency 8"]
    assert [[round(x) for x, _ in line] for line in lines] == [[1, 3], [1, 3]]
    assert [[y for _, y in line] for line in lines] == [near([1.3, 1.9])] * 2
    ratios = speed_ups(rows_of(validated(found)))
    bars = [(bar[0][1], bar[1][1]) for bar in of_kind(chart, "bar")]
    assert sorted(bars) == sorted((ratio.low, ratio.high) for ratio in ratios.values())
    assert (chart.x.label, chart.y.label) == ("k, speculative tokens", "speed-up, times k = 0")
    # The line that they are to be above.
    assert of_kind(chart, "base") == [[(chart.x.low, 1), (chart.x.high, 1)]]


def test_lines_at_one_k_do_not_hide_each_other(drawn):
    all_of(record(concurrency=(1, 4, 8, 16)))
    for name in (SPEED_UP, RATE):
        places = [x for x, _ in dots(drawn[f"{name}, tiny, 24/32"])]
        assert len(set(places)) == len(places) == 12
    places = [x for x, _ in dots(drawn[f"{POSITIONS}, tiny, 24/32"])]
    assert len(set(places)) == len(places) == 6


@pytest.mark.parametrize(
    ("verdict", "full"),
    [("better", True), ("worse", True), ("within the noise", False), ("not judged", False)],
)
def test_what_is_no_result_is_hollow(drawn, verdict, full):
    found = record(concurrency=(1,), ks=(0, 2))
    (key,) = speed_ups(rows_of(validated(found)))
    plot = all_of(found, {key: Ratio(1.1, 1.05, 1.2, verdict)})[SPEED_UP]
    chart = drawn["Speed-up over k, tiny, 24/32"]
    kinds = ["dot", "dot hollow"] if full else ["dot hollow", "dot"]
    assert [len(of_kind(chart, kind)) for kind in kinds] == [1, 0]
    labels = [label for _, label in plot.key]
    assert ("hollow: within the noise, or not judged" in labels) is not full
    assert ('class="dot hollow"' in plot.key[-1][0]) is not full


def test_one_run_has_no_interval(drawn):
    all_of(record(repeats=1))
    assert of_kind(drawn["Speed-up over k, tiny, 24/32"], "bar") == []


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        # All of it is seen; and 1, with which it is compared.
        ([Ratio(1.5, 1.4, 1.6, "better")], (0.9, 1.6)),
        ([Ratio(0.8, 0.7, 0.9, "worse")], (0.7, 1.1)),
        # One is so wide that nothing else could be read.
        ([Ratio(1.5, 0.01, 90, "within the noise"), Ratio(1.2, 1.1, 1.3, "better")], (0.5, 2)),
        # A small difference looks small.
        ([Ratio(1.01, 1.005, 1.015, "better")], (0.9, 1.1)),
    ],
)
def test_how_far_ratios_reach(ratios, expected):
    bottom, top = plots._bounds(ratios)
    low, high = expected
    workdir = max(abs(ratio.value - 1) for ratio in ratios)
    margin = max(workdir, 0.1) * 0.08
    assert (bottom, top) == (pytest.approx(low - margin), pytest.approx(high + margin))


def test_throughput(drawn):
    found = record(concurrency=(1, 16), ks=(0, 2))
    all_of(found)
    chart = drawn["Output tokens/s over concurrency, tiny, 24/32"]
    rows = rows_of(validated(found))
    means = [
        [(row.key.concurrency, row.mean(plots.THROUGHPUT)) for row in rows if row.key.k == k]
        for k in (0, 2)
    ]
    assert of_kind(chart, "line") == [near(line) for line in means]
    assert of_kind(chart, "dot") == of_kind(chart, "line")
    spread = next(r for r in rows if r.key.k == 0).spread(plots.THROUGHPUT)
    (x, low), (_, high) = of_kind(chart, "bar")[0]
    assert (x, high - low) == (1, pytest.approx(2 * spread))
    assert chart.y.low == 0
    assert chart.y.high > max(row.mean(plots.THROUGHPUT) for row in rows)
    assert (chart.x.low < 1, chart.x.high > 16, chart.x.values) == (True, True, [1, 16])
    assert (chart.x.label, chart.y.label) == ("concurrency, requests", "output tokens/s")


def test_acceptance(drawn):
    all_of(record(accepted=0.5, concurrency=(1,)))
    chart = drawn["Acceptance rate over k, tiny, 24/32"]
    (line,) = of_kind(chart, "line")
    assert [y for _, y in line] == near([50, 37.5, 100 * (0.5 + 0.25 + 0.125) / 3])
    assert chart.y.low == 0
    assert chart.y.high > 100


def test_acceptance_by_position_takes_all_concurrencies_together(drawn):
    found = record(accepted=0.5, concurrency=(1, 4))
    for one in found["points"]:
        if one["concurrency"] == 4:
            counters = one["measured"]["counters"]
            counters["per_position"] = [0] * one["k"]
            counters["accepted"] = 0
    all_of(found)
    lines = of_kind(drawn["Acceptance by position, tiny, 24/32"], "line")
    assert [[y for _, y in line] for line in lines] == [
        near([25, 12.5, 6.25][:k]) for k in (1, 2, 3)
    ]
    assert [[round(x) for x, _ in line] for line in lines] == [[0], [0, 1], [0, 1, 2]]


def test_latencies(drawn):
    found = record(concurrency=(1, 4, 8), ks=(0, 3))
    assert [title for title in all_of(found) if title.startswith(LATENCIES)] == [
        "Latencies at concurrency 1",
        "Latencies at concurrency 8",
    ]
    rows = [row for row in rows_of(validated(found)) if row.key.concurrency == 8]
    for name in ("ttft", "tpot", "itl", "e2el"):
        chart = drawn[f"Latencies at concurrency 8, {name.upper()}, tiny, 24/32"]
        quantiles = [row.quantiles(name) for row in rows]
        assert of_kind(chart, "line") == [
            near([(value, percent) for percent, value in enumerate(line)]) for line in quantiles
        ]
        marked = [(line[percent], percent) for line in quantiles for percent in (50, 95)]
        assert dots(chart) == near(marked)
        highest = max(line[99] for line in quantiles)
        assert (chart.x.low, chart.x.high) == (0, pytest.approx(highest * 1.05))
        assert chart.y.label == ("% of pieces" if name == "itl" else "% of requests")
        assert (chart.x.label, chart.heading) == ("ms", name.upper())


# What is left out, and why


@pytest.mark.parametrize(
    ("found", "title", "why"),
    [
        (record(ks=(0,)), SPEED_UP, "only k = 0 was measured"),
        (record(ks=(0,)), RATE, "only k = 0 was measured, which drafts nothing"),
        (record(ks=(0,)), POSITIONS, "only k = 0 was measured, which drafts nothing"),
        (
            record(ks=(1, 2)),
            SPEED_UP,
            "k = 0, which the others are compared with, was not measured",
        ),
        (record(concurrency=(8,)), THROUGHPUT, "only concurrency 8 was measured"),
    ],
)
def test_what_cannot_be_drawn_says_why(found, title, why):
    plots_found = all_of(found)
    plot = plots_found.pop(title)
    assert (plot.missing, plot.panels, plot.key) == (why, (), ())
    assert all(bool(other.panels) != bool(other.missing) for other in plots_found.values())


def test_k_0_elsewhere_is_none_to_compare_with():
    found = record(ks=(0, 1))
    found["points"] = [p for p in found["points"] if (p["k"] == 0) == (p["concurrency"] == 1)]
    assert all_of(found)[SPEED_UP].missing == "no k > 0 was measured where k = 0 was"


def test_servers_that_drafted_nothing():
    found = record(ks=(0, 1))
    for one in found["points"]:
        counters = one["measured"]["counters"]
        counters |= {"drafts": 0, "draft_tokens": 0, "accepted": 0, "per_position": []}
    assert {all_of(found)[name].missing for name in (RATE, POSITIONS)} == {
        "the servers counted no drafts, or did not tell"
    }


def test_nothing_is_drawn_of_nothing():
    found = record()
    found["points"] = [point(None, k=p["k"], repeat=p["repeat"]) for p in found["points"]]
    assert plots_of(scene_of(found)) == []


def test_one_concurrency_is_lowest_and_highest():
    assert [t for t in all_of(record(concurrency=(4,))) if t.startswith(LATENCIES)] == [
        "Latencies at concurrency 4"
    ]


def test_what_failed_is_left_out(drawn):
    found = record(ks=(0, 1, 2), concurrency=(1, 4))
    found["points"] = [
        point(None, k=2, concurrency=p["concurrency"], repeat=p["repeat"]) if p["k"] == 2 else p
        for p in found["points"]
    ]
    plot = all_of(found)[THROUGHPUT]
    assert [label for _, label in plot.key] == ["k = 0", "k = 1"]
    assert len(of_kind(drawn["Output tokens/s over concurrency, tiny, 24/32"], "line")) == 2


# Lines, and sides


def styles(chart):
    return [(mark.colour, mark.dash) for mark in chart.marks if mark.kind == "line"]


def markers(chart):
    return {(mark.colour, mark.shape) for mark in chart.marks if mark.kind == "dot"}


def test_lines_are_told_apart_by_colour_and_dash_and_marker(drawn):
    all_of(record(ks=(0, 1, 2, 3, 4), concurrency=(1, 4, 8, 16)))
    for name, count in ((SPEED_UP, 4), (THROUGHPUT, 5), (RATE, 4)):
        chart = drawn[f"{name}, tiny, 24/32"]
        for each in zip(*styles(chart), strict=True):
            assert len(set(each)) == count, name
        assert len({marker for _, marker in markers(chart)}) == count, name


def test_k_0_looks_the_same_everywhere_and_nothing_else_does(drawn):
    all_of(record(ks=(0, 2)))
    all_of(record(ks=(1, 2)))
    chart = drawn["Output tokens/s over concurrency, tiny, 24/32"]
    assert [colour for colour, _ in styles(chart)] == ["line-1", "line-2"]
    drawn.clear()
    all_of(record(ks=(0, 2)))
    chart = drawn["Output tokens/s over concurrency, tiny, 24/32"]
    assert [colour for colour, _ in styles(chart)] == ["line-0", "line-1"]


def test_few_lines_of_several_sides_are_in_one_picture(drawn):
    plot = all_of(record(ks=(0, 3), sides=(1.0, 1.5, 2.0)))[THROUGHPUT]
    assert len(plot.panels) == 1
    names = [f"{side}, k = {k}" for side in "ABC" for k in (0, 3)]
    assert [label for _, label in plot.key] == names
    chart = drawn["Output tokens/s over concurrency, tiny, 24/32"]
    colours, dashes = zip(*styles(chart), strict=True)
    assert (len(set(colours)), len(set(dashes)), len(set(styles(chart)))) == (2, 3, 6)
    assert len({marker for _, marker in markers(chart)}) == 6
    assert len({sample for sample, _ in plot.key}) == 6


def test_many_lines_of_several_sides_are_in_a_picture_each_to_one_scale(drawn):
    plot = all_of(record(sides=(1.0, 1.5)))[THROUGHPUT]
    assert [label for _, label in plot.key] == [f"k = {k}" for k in range(4)]
    both = [drawn[f"Output tokens/s over concurrency, {side}, tiny, 24/32"] for side in "AB"]
    assert [chart.heading for chart in both] == ["A", "B"]
    assert (both[0].x, both[0].y) == (both[1].x, both[1].y)
    assert [len(of_kind(chart, "line")) for chart in both] == [4, 4]
    tops = [max(y for line in of_kind(chart, "line") for _, y in line) for chart in both]
    assert tops[1] == pytest.approx(1.5 * tops[0], rel=0.02)


def test_many_lines_at_one_k_stay_between_it_and_the_next(drawn):
    all_of(record(ks=(0, 1, 2), concurrency=tuple(range(1, 26))))
    chart = drawn[f"{RATE}, tiny, 24/32"]
    places = sorted(x for x, _ in dots(chart))
    assert len(places) == 50
    assert chart.x.low < places[0] < places[24] < 1.5 < places[25] < places[-1] < chart.x.high


def test_answers_of_one_piece_have_no_latency_between_pieces(drawn):
    found = record(ks=(0,), concurrency=(1,), repeats=1)
    (one,) = found["points"]
    one["measured"]["latency_ms"]["itl"]["quantiles"] = [0.0] * 101
    all_of(found)
    axis = drawn["Latencies at concurrency 1, ITL, tiny, 24/32"].x
    assert (axis.low, axis.high) == (0, 1)


def test_drafts_without_positions():
    found = record(ks=(0, 1), concurrency=(1,), repeats=1)
    for one in found["points"]:
        one["measured"]["counters"]["per_position"] = []
    plots_found = all_of(found)
    assert plots_found[POSITIONS].missing == "the servers counted no drafts, or did not tell"
    assert plots_found[RATE].panels


def test_counters_of_no_draft_tokens_have_a_rate_of_nothing(drawn):
    found = record(ks=(0, 1), concurrency=(1,))
    for one in found["points"]:
        if one["k"]:
            one["measured"]["counters"] |= {"draft_tokens": 0, "accepted": 0, "per_position": [0]}
    assert Counters(drafts=1).rate is None
    all_of(found)
    assert [y for _, y in dots(drawn[f"{RATE}, tiny, 24/32"])] == [0]
