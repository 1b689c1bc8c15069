"""The pictures of what one model made of one shape: speed-up, throughput, acceptance, latencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.bench.load_result import LATENCIES, PERCENTS
from vpatch.commands.bench.report.scene import PlotLine
from vpatch.commands.bench.report.svg import blank, drawing, ink, svg_of
from vpatch.commands.bench.summary import THROUGHPUT
from vpatch.harness.predict import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes

    from vpatch.commands.bench.report.scene import By, PlotData
    from vpatch.commands.bench.summary import Key, Ratio, Row

    Draw = Callable[[Axes, Sequence[PlotLine]], None]

_LARGE, _MEDIUM, _SMALL = (480, 280), (368, 260), (270, 214)
# So many large ones are in a row.
_BESIDE = 2
# Samples at one k or position are side by side, by this share of the way to the next one.
_DODGE = 0.07
_MOST_TICKS = 12
# A difference of a hundredth is not to look like one of half.
_NEAR = 0.1
_MARKED = (50, 95)
_SHARES = dict.fromkeys(LATENCIES, "requests") | {"itl": "pieces"}
_HOLLOW = PlotLine("hollow: within the noise, or not judged", (), ink("muted"), "o")


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

    def draw(axes: Axes, lines: Sequence[PlotLine]) -> None:
        axes.axhline(1, color=ink("muted"), linewidth=1)
        for line, xs in _over_k(axes, lines, rows):
            of_line = [scene.ratios[row.key] for row in line.rows]
            line.curve(axes, xs, [ratio.value for ratio in of_line])
            for x, ratio in zip(xs, of_line, strict=True):
                if ratio.low is not None and ratio.high is not None:
                    line.bar(axes, x, ratio.low, ratio.high)
                line.dot(axes, x, ratio.value, full=_is_decided(ratio))
        axes.set_ylim(_bounds(ratios))
        axes.set_ylabel("speed-up, times k = 0")

    further = () if all(map(_is_decided, ratios)) else (_HOLLOW,)
    return _draw(plot, scene, rows, "concurrency", [("", draw)], further)


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

    def draw(axes: Axes, lines: Sequence[PlotLine]) -> None:
        for line in lines:
            keys = [row.key for row in line.rows]
            line.curve(axes, [key.concurrency for key in keys], [means[key] for key in keys])
            for key in keys:
                low, high = means[key] - spreads[key], means[key] + spreads[key]
                line.bar(axes, key.concurrency, low, high)
                line.dot(axes, key.concurrency, means[key])
        axes.set_xscale("log", base=2)
        axes.set_xticks([], minor=True)
        _ticks(axes, levels)
        axes.set_xlabel("concurrency, requests")
        axes.set_ylabel("output tokens/s")
        axes.set_ylim(0, max(means[key] + spreads[key] for key in means) * 1.06)

    return _draw(plot, scene, scene.measured, "k", [("", draw)])


def _acceptance(scene: PlotData) -> Plot:
    plot = Plot(
        "Acceptance rate over k",
        "Accepted draft tokens by all that were drafted; the repeats are taken together.",
    )
    counters = _counters(scene)
    if not counters:
        return replace(plot, missing=_nothing_drafted(scene))
    rows = [row for row in scene.rows if row.key in counters]

    def draw(axes: Axes, lines: Sequence[PlotLine]) -> None:
        for line, xs in _over_k(axes, lines, rows):
            rates = [100 * (counters[row.key].rate or 0) for row in line.rows]
            line.curve(axes, xs, rates)
            for x, rate in zip(xs, rates, strict=True):
                line.dot(axes, x, rate)
        _percents(axes, "acceptance rate, %")

    return _draw(plot, scene, rows, "concurrency", [("", draw)])


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

    def draw(axes: Axes, lines: Sequence[PlotLine]) -> None:
        for line, shift in _dodge(lines):
            of_line = sum((counters[row.key] for row in line.rows), Counters())
            shares = [100 * accepted / of_line.drafts for accepted in of_line.per_position]
            xs = [position + shift for position in range(len(shares))]
            line.curve(axes, xs, shares)
            for x, share in zip(xs, shares, strict=True):
                line.dot(axes, x, share)
        _ticks(axes, range(longest))
        axes.set_xlim(-0.5, longest - 0.5)
        axes.set_xlabel("position in the draft, from 0")
        _percents(axes, "accepted, % of drafts")

    return _draw(plot, scene, rows, "k", [("", draw)])


def _latencies(scene: PlotData, concurrency: int) -> Plot:
    plot = Plot(
        f"Latencies at concurrency {concurrency}",
        "Cumulative distributions: the share of all that took at most so long, so that a line "
        "further left is faster. Means of the repeats' quantiles, marked at p50 and p95; the axes "
        "end right after the highest p99.",
    )
    rows = [row for row in scene.measured if row.key.concurrency == concurrency]

    def view(name: str) -> tuple[str, Draw]:
        slowest = max(row.quantiles(name)[99] for row in rows)

        def draw(axes: Axes, lines: Sequence[PlotLine]) -> None:
            for line in lines:
                (quantiles,) = (row.quantiles(name) for row in line.rows)
                line.curve(axes, quantiles, range(PERCENTS))
                for percent in _MARKED:
                    line.dot(axes, quantiles[percent], percent)
            # ITL is 0 where each answer came in one piece.
            axes.set_xlim(0, slowest * 1.05 or 1)
            axes.set_xlabel("ms")
            _percents(axes, f"% of {_SHARES[name]}")

        return name.upper(), draw

    return _draw(plot, scene, rows, "k", [view(name) for name in LATENCIES])


def _draw(
    plot: Plot,
    scene: PlotData,
    rows: Sequence[Row],
    by: By,
    views: Sequence[tuple[str, Draw]],
    further: Sequence[PlotLine] = (),
) -> Plot:
    """Draw each view of each of a scene's panels, and the key to all of them."""
    panels = list(scene.panels(rows, by))
    size = _SMALL if len(views) > 1 else _LARGE if len(panels) <= _BESIDE else _MEDIUM
    pictures = []
    for side, lines in panels:
        for view, draw in views:
            heading = " ".join(filter(None, (side, view)))
            name = ", ".join(filter(None, (plot.title, heading, scene.about)))
            with drawing():
                figure, axes = blank(*size)
                axes.ticklabel_format(style="plain", useOffset=False)
                draw(axes, lines)
                axes.set_title(heading, parse_math=False)
                pictures.append(svg_of(figure, name, name))
    lines = [*{line.label: line for _, lines in panels for line in lines}.values(), *further]
    about = f"{plot.title}, {scene.about}"
    key = [(line.sample(about, full=line not in further), line.label) for line in lines]
    return replace(plot, key=tuple(key), panels=tuple(pictures))


def _over_k(
    axes: Axes, lines: Sequence[PlotLine], rows: Sequence[Row]
) -> Iterator[tuple[PlotLine, list[float]]]:
    """Make k the horizontal axis; yield the places of each line's rows, beside the others'."""
    ks = sorted({row.key.k for row in rows})
    _ticks(axes, ks)
    axes.set_xlim(ks[0] - 0.5, ks[-1] + 0.5)
    axes.set_xlabel("k, speculative tokens")
    for line, shift in _dodge(lines):
        yield line, [row.key.k + shift for row in line.rows]


def _dodge(lines: Sequence[PlotLine]) -> Iterator[tuple[PlotLine, float]]:
    for number, line in enumerate(lines):
        yield line, _DODGE * (number - (len(lines) - 1) / 2)


def _ticks(axes: Axes, values: Sequence[int]) -> None:
    """Have ticks at values themselves, and at the last of them in any case."""
    step = -(-len(values) // _MOST_TICKS)
    shown = [value for place, value in enumerate(reversed(values)) if place % step == 0]
    axes.set_xticks(shown, [str(value) for value in shown])


def _percents(axes: Axes, label: str) -> None:
    axes.set_ylim(0, 103)
    axes.set_yticks(range(0, 101, 25))
    axes.set_ylabel(label)


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
