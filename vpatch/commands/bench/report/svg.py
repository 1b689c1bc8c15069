"""Matplotlib's figures as SVG inside a page: the page's colours and font, and ids of their own."""

from __future__ import annotations

import hashlib
import io
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = 8
# The names of the page's CSS variables; each is drawn as a colour that nothing else has.
_INKS = ("text", "muted", "grid", "page", *(f"line-{number}" for number in range(COLOURS)))
_SENTINEL = re.compile("#fe00([0-9a-f]{2})")
_CLASS = "class:"
_FONT = re.compile(r"font-family:[^;]*;\s*")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_NAMESPACE = re.compile(r'\sxmlns(:\w+)?="[^"]*"')
_REFERENCE = re.compile(r"#([\w-]+)")
_SETTINGS = {
    "axes.edgecolor": "#fe0001",
    "axes.labelcolor": "#fe0001",
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": "#fe0000",
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.unicode_minus": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "font.size": 12,
    "grid.color": "#fe0002",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
    "svg.fonttype": "none",
    "svg.hashsalt": "vpatch",
    "text.color": "#fe0000",
    "xtick.color": "#fe0001",
    "xtick.labelcolor": "#fe0000",
    "ytick.color": "#fe0001",
    "ytick.labelcolor": "#fe0000",
}


def ink(name: str) -> str:
    """Return the colour to draw with that is a page's `var(--NAME)` in the end."""
    return f"#fe00{_INKS.index(name):02x}"


def classed(name: str) -> str:
    """Return the gid of an artist whose element gets a class."""
    return _CLASS + name


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in here: whatever the settings of this machine are, the picture is the same."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than most commands to run

    with style.context(["default", _SETTINGS]):
        yield


def blank(width: int, height: int, *, margin: bool = True) -> tuple[Figure, Axes]:
    """Return a figure of so many pixels, and its axes: all of it, or with room for labels."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    # At 72 dots an inch, matplotlib's points are the page's pixels.
    size = width / 72, height / 72
    figure = Figure(figsize=size, dpi=72, layout="constrained" if margin else None)
    figure.patch.set_visible(False)
    axes = figure.add_subplot() if margin else figure.add_axes((0, 0, 1, 1))
    axes.patch.set_visible(False)
    return figure, axes


def svg_of(figure: Figure, key: str, name: str = "") -> str:
    """Return a figure as an element of a page. One without a name is hidden from who listens.

    `key` is unique on the page, because the ids depend on it.
    """
    written = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=nothing)
    text = _NAMESPACE.sub("", written.getvalue(), count=2).replace("xlink:href", "href")
    root = ET.fromstring(text)  # noqa: S314 - matplotlib wrote it a moment ago
    # Its style is for every element of whatever document it is in.
    for parent in root.iter():
        for style in parent.findall("style"):
            parent.remove(style)
    _tell_ids_apart(root, "v" + hashlib.sha256(key.encode()).hexdigest()[:10])
    for element in root.iter():
        _fit(element)
    _, _, width, height = root.attrib["viewBox"].split()
    attributes = {"role": "img", "aria-label": name} if name else {"aria-hidden": "true"}
    root.attrib.clear()
    root.attrib.update(attributes | {"viewBox": f"0 0 {width} {height}"})
    root.attrib.update(width=width, height=height, style="stroke-linejoin: round")
    return ET.tostring(root, encoding="unicode")


def _tell_ids_apart(root: ET.Element, prefix: str) -> None:
    """Keep the ids that are referred to, under other names; those of ours become classes."""
    values = [v for e in root.iter() for k, v in e.attrib.items() if k in {"href", "clip-path"}]
    used = {match[1] for value in values if (match := _REFERENCE.search(value))}
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name.startswith(_CLASS):
            element.set("class", name.removeprefix(_CLASS))
        elif name in used:
            element.set("id", f"{prefix}-{name}")
        for key in {"href", "clip-path"} & element.attrib.keys():
            element.set(key, _REFERENCE.sub(rf"#{prefix}-\1", element.attrib[key]))


def _fit(element: ET.Element) -> None:
    """Give an element the page's font and colours, and no more digits than can be seen."""
    if element.attrib.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for name, value in element.attrib.items():
        if name == "style":
            inked = _SENTINEL.sub(lambda match: f"var(--{_INKS[int(match[1], 16)]})", value)
            element.set(name, _FONT.sub("", inked))
        elif name != "id":
            short = _LONG.sub(lambda match: f"{float(match[0]):.2f}", value)
            element.set(name, " ".join(short.split()))
    element.tail = None
    if element.tag != "text":
        element.text = None
