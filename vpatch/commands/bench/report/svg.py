"""Charts as SVG inside a page, with the page's colours and font."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Point = tuple[float, float]
    Place = Callable[[Point], Point]
    Ticks = list[tuple[float, str]]

COLOURS = 8
# The height of text. Which font it has is known only where the page is read: this is how wide a
# digit may be. A letter, of whatever script, may be as wide as it is high.
_EM, _DIGIT = 12.0, 7.8
_LINE = 1.4 * _EM
_WIDTHS = {"line": 1.6, "bar": 1.2, "grid": 0.8, "axis": 0.8}
_SAMPLE = (34, 12)
# So much of a step or a pixel is rounding.
_NEAR = 1e-9


@dataclass(frozen=True)
class Mark:
    """A line through points; or, with a shape, the shape at each point.

    `kind` is the class of its elements, and `colour` the name of one of the page's variables.
    """

    kind: str
    points: Sequence[Point]
    colour: str
    dash: str = "none"
    shape: str = ""


@dataclass(frozen=True)
class Axis:
    """What is along one side of a chart, from `low` to `high`.

    `values` are labelled as far as there is room, the last one first; without them, round numbers
    are. On a `doubling` axis, it is as far from 1 to 2 as from 2 to 4.
    """

    label: str
    low: float
    high: float
    values: Sequence[int] = ()
    doubling: bool = False

    def share(self, value: float) -> float:
        """Return how much of the way from `low` to `high` a value is."""
        if self.doubling:
            return math.log2(value / self.low) / math.log2(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, pixels: float, room: Callable[[str], float]) -> Ticks:
        """Return labels and how many pixels from `low` they are; `room` is what a label needs."""
        labels = [(value, str(value)) for value in self.values] or self._rounds(pixels, room)
        ticks: Ticks = []
        end = pixels + 1.5 * _EM
        for value, label in reversed(labels):
            middle, half = self.share(value) * pixels, room(label) / 2
            if middle + half <= end + _NEAR:
                ticks.insert(0, (middle, label))
                end = middle - half
        return ticks

    def _rounds(self, pixels: float, room: Callable[[str], float]) -> Ticks:
        """Return the multiples of the least step of 1, 2 or 5 times 10^n that has room."""
        exponent = math.floor(math.log10(self.high - self.low)) - 2
        while True:
            decimals = max(-exponent, 0)
            widest = max(room(f"{end:.{decimals}f}") for end in (self.low, self.high))
            for step in (digit * 10.0**exponent for digit in (1, 2, 5)):
                first, last = self.low / step, self.high / step
                if pixels / (last - first) >= widest:
                    numbers = range(math.ceil(first - _NEAR), math.floor(last + _NEAR) + 1)
                    return [(one * step, f"{one * step:.{decimals}f}") for one in numbers]
            exponent += 1


@dataclass(frozen=True)
class Chart:
    """Marks between two axes, and what is above them."""

    heading: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]


class _Frame(NamedTuple):
    """What the axes of a chart enclose, in pixels from its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


def svg_of(chart: Chart, size: tuple[int, int], name: str) -> str:
    """Return a chart as an element of a page, for listeners with a name.

    It has the width in pixels, and the height with one line of heading: further ones make it
    higher.
    """
    width, height = size
    heading = wrap(chart.heading, int(width / _EM))
    above = _LINE * len(heading)
    height += math.ceil(max(above - _LINE, 0))
    root = _root(width, height, {"role": "img", "aria-label": name})
    y = above + _EM / 2
    tall = height - 2.9 * _EM - y
    rows = chart.y.ticks(tall, lambda _: 2 * _EM)
    x = 2 * _EM + _DIGIT * max(len(label) for _, label in rows)
    frame = _Frame(x, y, width - _EM - x, tall)
    columns = chart.x.ticks(frame.width, lambda label: _DIGIT * len(label) + _EM)
    _draw_axes(root, frame, columns, rows)
    _draw_marks(root, frame, chart)
    _text(root, chart.x.label, (x + frame.width / 2, height - 0.4 * _EM), "middle", "muted")
    turned = _text(root, chart.y.label, (-y - tall / 2, _EM), "middle", "muted")
    turned.set("transform", "rotate(-90)")
    for number, line in enumerate(heading):
        bold = _text(root, line, (0, _EM + number * _LINE), "start")
        bold.set("font-weight", "bold")
    return ET.tostring(root, encoding="unicode")


def sample_of(marks: Sequence[Mark]) -> str:
    """Return marks in pixels for the key of a chart, hidden from listeners."""
    root = _root(*_SAMPLE, {"aria-hidden": "true"})
    for mark in marks:
        _draw(root, mark, lambda point: point)
    return ET.tostring(root, encoding="unicode")


def _root(width: int, height: int, attributes: dict[str, str]) -> ET.Element:
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    style = {"font-size": f"{_EM:g}", "style": "fill: none; stroke-linejoin: round"}
    return ET.Element("svg", attributes | size | style)


def _draw_axes(root: ET.Element, frame: _Frame, columns: Ticks, rows: Ticks) -> None:
    right, bottom = frame.right, frame.bottom
    xs = [(frame.x + place, label) for place, label in columns]
    ys = [(bottom - place, label) for place, label in rows]
    grid = [_path((x, frame.y), (x, bottom)) for x, _ in xs]
    grid += [_path((frame.x, y), (right, y)) for y, _ in ys]
    axes = [_path((frame.x, frame.y), (frame.x, bottom), (right, bottom))]
    axes += [_path((x, bottom), (x, bottom + 3)) for x, _ in xs]
    axes += [_path((frame.x - 3, y), (frame.x, y)) for y, _ in ys]
    _stroke(root, "grid", "".join(grid), "grid")
    _stroke(root, "axis", "".join(axes), "muted")
    for x, label in xs:
        _text(root, label, (x, bottom + 1.3 * _EM), "middle")
    for y, label in ys:
        _text(root, label, (frame.x - _EM / 2, y + 0.35 * _EM), "end")


def _draw_marks(root: ET.Element, frame: _Frame, chart: Chart) -> None:
    """Draw lines, cut off where they leave the axes, and dots over them, which are all within."""

    def place(point: Point) -> Point:
        across, up = chart.x.share(point[0]), chart.y.share(point[1])
        return frame.x + across * frame.width, frame.bottom - up * frame.height

    sizes = {name: _short(pixels) for name, pixels in frame._asdict().items()}
    within = ET.SubElement(root, "svg", sizes | {"viewBox": " ".join(sizes.values())})
    for mark in chart.marks:
        _draw(root if mark.shape else within, mark, place)


def _draw(parent: ET.Element, mark: Mark, place: Place) -> None:
    places = [place(point) for point in mark.points]
    if not mark.shape:
        _stroke(parent, mark.kind, _path(*places), mark.colour).set("stroke-dasharray", mark.dash)
        return
    fill = "page" if "hollow" in mark.kind else mark.colour
    for x, y in places:
        dot = _stroke(parent, mark.kind, mark.shape, mark.colour, fill)
        dot.set("transform", f"translate({_short(x)} {_short(y)})")


def _stroke(parent: ET.Element, kind: str, path: str, colour: str, fill: str = "") -> ET.Element:
    style = f"stroke: var(--{colour})" + (f"; fill: var(--{fill})" if fill else "")
    width = f"{_WIDTHS.get(kind, 1):g}"
    attributes = {"class": kind, "d": path, "stroke-width": width, "style": style}
    return ET.SubElement(parent, "path", attributes)


def _path(*places: Point) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in places)


def _text(
    parent: ET.Element, text: str, place: Point, anchor: str, colour: str = "text"
) -> ET.Element:
    attributes = {"x": _short(place[0]), "y": _short(place[1]), "text-anchor": anchor}
    element = ET.SubElement(parent, "text", attributes, style=f"fill: var(--{colour})")
    element.text = text
    return element


def _short(number: float) -> str:
    """No more digits than can be seen."""
    return f"{round(number, 2):g}"
