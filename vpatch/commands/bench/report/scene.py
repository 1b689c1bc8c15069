"""What is in one picture: which rows are a line, and how the line is told from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vpatch.commands.bench.report.svg import COLOURS, blank, classed, drawing, ink, svg_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes

    from vpatch.commands.bench.summary import Key, Ratio, Row

By = Literal["k", "concurrency"]
# More lines in one picture are told apart by nobody.
_READABLE = 6
_MARKERS = ("o", "s", "^", ">", "D", "v", "<", "p")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (7, 2)),
    (0, (7, 2, 1.5, 2)),
    (0, (3, 1.5)),
    (0, (1.5, 1.5)),
    (0, (9, 2, 3, 2)),
    (0, (7, 1.5, 1.5, 1.5, 1.5, 1.5)),
    (0, (5, 4)),
)
_SAMPLE = (34, 12)


@dataclass(frozen=True)
class PlotLine:
    """The rows of a side that differ in one thing alone, and how they are drawn."""

    label: str
    rows: tuple[Row, ...]
    colour: str
    marker: str
    dash: Any = "none"

    def curve(self, axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
        axes.plot(xs, ys, color=self.colour, linestyle=self.dash, gid=classed("line"))

    def dot(self, axes: Axes, x: float, y: float, *, full: bool = True) -> None:
        axes.plot(
            [x],
            [y],
            color=self.colour,
            marker=self.marker,
            markerfacecolor=self.colour if full else ink("page"),
            zorder=3,
            gid=classed("dot" if full else "dot hollow"),
        )

    def bar(self, axes: Axes, x: float, low: float, high: float) -> None:
        axes.plot([x, x], [low, high], color=self.colour, linewidth=1.2, gid=classed("bar"))

    def sample(self, key: str, *, full: bool = True) -> str:
        """Draw the key of a picture."""
        with drawing():
            figure, axes = blank(*_SAMPLE, margin=False)
            self.curve(axes, [0, 1], [0, 0])
            self.dot(axes, 0.5, 0, full=full)
            axes.set_axis_off()
            axes.set_xlim(-0.05, 1.05)
            return svg_of(figure, f"{key} {self.label}")


@dataclass(frozen=True)
class PlotData:
    """The rows of one model and shape; `ratios` are their speed-ups, `about` says which they are.

    `sides` are the names of all sides.
    """

    about: str
    rows: Sequence[Row]
    sides: Sequence[str]
    ratios: Mapping[Key, Ratio]

    @property
    def measured(self) -> list[Row]:
        return [row for row in self.rows if row.runs]

    def panels(self, rows: Sequence[Row], by: By) -> Iterator[tuple[str, list[PlotLine]]]:
        """Yield the lines of each picture: those of all sides, or of one, which then has a name."""
        sides = sorted({row.key.side for row in rows})
        values = sorted({_value(row, by) for row in self.rows})
        joined = len(sides) > 1 and len(sides) * len(values) <= _READABLE
        together = []
        for place, side in enumerate(sides):
            mine = [row for row in rows if row.key.side == side]
            name, number = (f"{self.sides[side]}, ", place) if joined else ("", None)
            lines = [
                _line(name, number, [row for row in mine if _value(row, by) == value], by, values)
                for value in sorted({_value(row, by) for row in mine})
            ]
            together += lines
            if not joined:
                yield self.sides[side], lines
        if joined:
            yield "", together


def _value(row: Row, by: By) -> int:
    return row.key.k if by == "k" else row.key.concurrency


def _line(
    side: str, number: int | None, rows: Sequence[Row], by: By, values: Sequence[int]
) -> PlotLine:
    """The line of one of the values; sides are numbered where several are in one picture."""
    value = _value(rows[0], by)
    # Concurrency has other colours than k, and k = 0 that of text.
    place = values.index(value)
    own = place + (values[0] > 0) if by == "k" else COLOURS - 1 - place
    return PlotLine(
        label=side + (f"k = {value}" if by == "k" else f"concurrency {value}"),
        rows=tuple(rows),
        colour=ink(f"line-{own % COLOURS}"),
        marker=_MARKERS[(own + (number or 0) * len(values)) % len(_MARKERS)],
        dash=_DASHES[(own if number is None else number) % len(_DASHES)],
    )
