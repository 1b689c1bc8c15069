"""The pictures of what one model made of one shape: speed-up, throughput, acceptance, latencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.bench.load_result import LATENCIES, PERCENTS
from vpatch.commands.bench.report.scene import CIRCLE, PlotLine
from vpatch.commands.bench.report.svg import Axis, Chart, Mark, svg_of
from vpatch.commands.bench.summary import THROUGHPUT
from vpatch.harness.predict import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vpatch.commands.bench.report.scene import By, PlotData
    from vpatch.commands.bench.summary import Key, Ratio, Row

_LARGE, _MEDIUM, _SMALL = (480, 280), (368, 260), (270, 214)
# So many large ones are in a row.
_BESIDE = 2
# Samples at one k or position are side by side, by this share of the way to the next one; and all
# of them on this share of it.
_DODGE, _MOST_DODGE = 0.07, 0.9
# A difference of a hundredth is not to look like one of half.
_NEAR = 0.1
# What is left of the lowest concurrency and right of the highest, by what is between them.
_MARGIN = 0.04
_MARKED = (50, 95)
_SHARES = dict.fromkeys(LATENCIES, "requests") | {"itl": "pieces"}
_HOLLOW = PlotLine("hollow: within the noise, or not judged", (), "muted", CIRCLE)


@dataclass(frozen=True)
class Plot:
    """Pictures that are read together. Where there are none, `missing` says why.

    `key` has a sample of each line, and its meaning.
    """

    title: str
    words: str = ""
    missing: str = ""
    key: tuple[tuple[str, str], ...] = ()
    panels: tuple[str, ...] = ()


class _View(NamedTuple):
    """What is drawn of the lines of each panel."""

    heading: str
    x: Axis
    y: Axis
    draw: Callable[[Sequence[PlotLine]], Iterator[Mark]]


def plots_of(scene: PlotData) -> list[Plot]:
    """Return all plots of a model and a shape; one that cannot be drawn says why."""
    if not scene.measured:
        return []
    plots = [_speed_up(scene), _throughput(scene), _acceptance(scene), _positions(scene)]
    levels = sorted({row.key.concurrency for row in scene.measured})
    return plots + [_latencies(scene, level) for level in dict.fromkeys((levels[0], levels[-1]))]


def _speed_up(scene: PlotData) -> Plot:
    plot = Plot(
        "Speed-up over k",
        "Output tokens/s as a multiple of those without speculative decoding (k = 0). Bars are "
        "intervals that hold with 95 % for all speed-ups together; one that leaves the picture is "
        "in the table.",
    )
    rows = [row for row in scene.rows if row.key in scene.ratios]
    if not rows:
        return replace(plot, missing=_nothing_to_compare(scene))
    ratios = [scene.ratios[row.key] for row in rows]
    across = _k_axis(rows)

    def draw(lines: Sequence[PlotLine]) -> Iterator[Mark]:
        yield Mark("base", ((across.low, 1), (across.high, 1)), "muted")
        for line, shift in _dodge(lines):
            of_line = [(row.key.k + shift, scene.ratios[row.key]) for row in line.rows]
            yield line.curve((x, ratio.value) for x, ratio in of_line)
            for x, ratio in of_line:
                if ratio.low is not None and ratio.high is not None:
                    yield line.bar(x, ratio.low, ratio.high)
                yield line.dots([(x, ratio.value)], full=_is_decided(ratio))

    view = _View("", across, Axis("speed-up, times k = 0", *_bounds(ratios)), draw)
    further = () if all(map(_is_decided, ratios)) else (_HOLLOW,)
    return _draw(plot, scene, rows, "concurrency", [view], further)


def _throughput(scene: PlotData) -> Plot:
    plot = Plot(
        "Output tokens/s over concurrency",
        "Output tokens of a load by its duration, with at most so many requests under way at "
        "once: means of the repeats, with bars of one standard deviation to each side.",
    )
    levels = sorted({row.key.concurrency for row in scene.measured})
    if len(levels) == 1:
        return replace(plot, missing=f"only concurrency {levels[0]} was measured")
    means = {row.key: row.mean(THROUGHPUT) or 0.0 for row in scene.measured}
    spreads = {row.key: row.spread(THROUGHPUT) or 0.0 for row in scene.measured}

    def draw(lines: Sequence[PlotLine]) -> Iterator[Mark]:
        for line in lines:
            points = [(row.key.concurrency, means[row.key]) for row in line.rows]
            yield line.curve(points)
            for row in line.rows:
                low, high = (means[row.key] + sign * spreads[row.key] for sign in (-1, 1))
                yield line.bar(row.key.concurrency, low, high)
            yield line.dots(points)

    margin = (levels[-1] / levels[0]) ** _MARGIN
    across = Axis(
        "concurrency, requests", levels[0] / margin, levels[-1] * margin, levels, doubling=True
    )
    highest = max(means[key] + spreads[key] for key in means)
    view = _View("", across, Axis("output tokens/s", 0, highest * 1.06 or 1), draw)
    return _draw(plot, scene, scene.measured, "k", [view])


def _acceptance(scene: PlotData) -> Plot:
    plot = Plot(
        "Acceptance rate over k",
        "Accepted draft tokens by all that were drafted; the repeats are taken together.",
    )
    counters = _counters(scene)
    if not counters:
        return replace(plot, missing=_nothing_drafted(scene))
    rows = [row for row in scene.rows if row.key in counters]

    def draw(lines: Sequence[PlotLine]) -> Iterator[Mark]:
        for line, shift in _dodge(lines):
            rates = [100 * (counters[row.key].rate or 0) for row in line.rows]
            ks = [row.key.k + shift for row in line.rows]
            yield from line.dotted(zip(ks, rates, strict=True))

    view = _View("", _k_axis(rows), _percents("acceptance rate, %"), draw)
    return _draw(plot, scene, rows, "concurrency", [view])


def _positions(scene: PlotData) -> Plot:
    plot = Plot(
        "Acceptance by position",
        "At how many of all drafts the token at this position was accepted, and all before it; "
        "repeats and concurrencies are taken together.",
    )
    counters = {key: counts for key, counts in _counters(scene).items() if counts.per_position}
    if not counters:
        return replace(plot, missing=_nothing_drafted(scene))
    rows = [row for row in scene.rows if row.key in counters]
    longest = max(len(counts.per_position) for counts in counters.values())

    def draw(lines: Sequence[PlotLine]) -> Iterator[Mark]:
        for line, shift in _dodge(lines):
            of_line = sum((counters[row.key] for row in line.rows), Counters())
            shares = [100 * accepted / of_line.drafts for accepted in of_line.per_position]
            yield from line.dotted((place + shift, share) for place, share in enumerate(shares))

    across = Axis("position in the draft, from 0", -0.5, longest - 0.5, range(longest))
    view = _View("", across, _percents("accepted, % of drafts"), draw)
    return _draw(plot, scene, rows, "k", [view])


def _latencies(scene: PlotData, concurrency: int) -> Plot:
    plot = Plot(
        f"Latencies at concurrency {concurrency}",
        "Cumulative distributions: the share of all that took at most so long, so that a line "
        "further left is faster. Means of the repeats' quantiles, marked at p50 and p95; the axes "
        "end right after the highest p99.",
    )
    rows = [row for row in scene.measured if row.key.concurrency == concurrency]

    def view(name: str) -> _View:
        slowest = max(row.quantiles(name)[99] for row in rows)

        def draw(lines: Sequence[PlotLine]) -> Iterator[Mark]:
            for line in lines:
                (quantiles,) = (row.quantiles(name) for row in line.rows)
                yield line.curve(zip(quantiles, range(PERCENTS), strict=True))
                yield line.dots((quantiles[percent], percent) for percent in _MARKED)

        # ITL is 0 where each answer came in one piece.
        across = Axis("ms", 0, slowest * 1.05 or 1)
        return _View(name.upper(), across, _percents(f"% of {_SHARES[name]}"), draw)

    return _draw(plot, scene, rows, "k", [view(name) for name in LATENCIES])


def _draw(
    plot: Plot,
    scene: PlotData,
    rows: Sequence[Row],
    by: By,
    views: Sequence[_View],
    further: Sequence[PlotLine] = (),
) -> Plot:
    """Draw each view of each of a scene's panels, and the key to all of them."""
    panels = list(scene.panels(rows, by))
    size = _SMALL if len(views) > 1 else _LARGE if len(panels) <= _BESIDE else _MEDIUM
    pictures = []
    for side, lines in panels:
        for view in views:
            heading = " ".join(filter(None, (side, view.heading)))
            name = ", ".join(filter(None, (plot.title, heading, scene.about)))
            chart = Chart(heading, view.x, view.y, tuple(view.draw(lines)))
            pictures.append(svg_of(chart, size, name))
    lines = [*{line.label: line for _, lines in panels for line in lines}.values(), *further]
    key = [(line.sample(full=line not in further), line.label) for line in lines]
    return replace(plot, key=tuple(key), panels=tuple(pictures))


def _k_axis(rows: Sequence[Row]) -> Axis:
    ks = sorted({row.key.k for row in rows})
    return Axis("k, speculative tokens", ks[0] - 0.5, ks[-1] + 0.5, ks)


def _dodge(lines: Sequence[PlotLine]) -> Iterator[tuple[PlotLine, float]]:
    step = min(_DODGE, _MOST_DODGE / len(lines))
    for number, line in enumerate(lines):
        yield line, step * (number - (len(lines) - 1) / 2)


def _percents(label: str) -> Axis:
    return Axis(label, 0, 103, range(0, 101, 25))


def _is_decided(ratio: Ratio) -> bool:
    return ratio.verdict in {"better", "worse"}


def _bounds(ratios: Sequence[Ratio]) -> tuple[float, float]:
    """What a picture of ratios reaches from and to; a very wide interval leaves it."""
    values = [1.0, *(ratio.value for ratio in ratios)]
    low, high = min(values), max(values)
    span = max(high - low, _NEAR)
    lows = [1 - _NEAR, low, *(ratio.low for ratio in ratios if ratio.low is not None)]
    highs = [1 + _NEAR, high, *(ratio.high for ratio in ratios if ratio.high is not None)]
    margin = span * 0.08
    return max(min(lows), low - span) - margin, min(max(highs), high + span) + margin


def _counters(scene: PlotData) -> dict[Key, Counters]:
    by_key = {row.key: row.counters for row in scene.measured}
    return {key: counters for key, counters in by_key.items() if counters is not None}


def _nothing_to_compare(scene: PlotData) -> str:
    ks = {row.key.k for row in scene.measured}
    if ks == {0}:
        return "only k = 0 was measured"
    if 0 not in ks:
        return "k = 0, which the others are compared with, was not measured"
    return "no k > 0 was measured where k = 0 was"


def _nothing_drafted(scene: PlotData) -> str:
    if not any(row.key.k for row in scene.measured):
        return "only k = 0 was measured, which drafts nothing"
    return "the servers counted no drafts, or did not tell"
