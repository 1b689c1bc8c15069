"""What is in one picture: which rows are a line, and how the line is told from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.commands.bench.report.svg import COLOURS, Mark, sample_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.commands.bench.report.svg import Point
    from vpatch.commands.bench.summary import Key, Ratio, Row

By = Literal["k", "concurrency"]
# More lines in one picture are told apart by nobody.
_READABLE = 6
# Paths around a point.
CIRCLE = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"
_SHAPES = (
    CIRCLE,
    "M-3 -3h6v6h-6z",
    "M0 -3l3 6h-6z",
    "M3 0l-6 3v-6z",
    "M0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z",
    "M0 3l3 -6h-6z",
    "M-3 0l6 3v-6z",
    "M0 -3.2l3 2.2l-1.1 3.6h-3.8l-1.1 -3.6z",
)
# Lengths of strokes and of what is between them.
_DASHES = (
    "none",
    "11 3",
    "11 3 2.5 3",
    "5 2.5",
    "2.5 2.5",
    "14 3 5 3",
    "11 2.5 2.5 2.5 2.5 2.5",
    "8 6",
)


@dataclass(frozen=True)
class PlotLine:
    """The rows of a side that differ in one thing alone, and how they are drawn."""

    label: str
    rows: tuple[Row, ...]
    colour: str
    shape: str
    dash: str = "none"

    def curve(self, points: Iterable[Point]) -> Mark:
        return Mark("line", tuple(points), self.colour, dash=self.dash)

    def dots(self, points: Iterable[Point], *, full: bool = True) -> Mark:
        kind = "dot" if full else "dot hollow"
        return Mark(kind, tuple(points), self.colour, shape=self.shape)

    def dotted(self, points: Iterable[Point]) -> Iterator[Mark]:
        """Yield a curve with a dot at each point."""
        points = tuple(points)
        yield self.curve(points)
        yield self.dots(points)

    def bar(self, x: float, low: float, high: float) -> Mark:
        return Mark("bar", ((x, low), (x, high)), self.colour)

    def sample(self, *, full: bool = True) -> str:
        """Draw it for the key of a picture; without its line if it is hollow."""
        lines = [self.curve([(1, 6), (33, 6)])] if full else []
        return sample_of([*lines, self.dots([(17, 6)], full=full)])


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
        colour=f"line-{own % COLOURS}",
        shape=_SHAPES[(own + (number or 0) * len(values)) % len(_SHAPES)],
        dash=_DASHES[(own if number is None else number) % len(_DASHES)],
    )
