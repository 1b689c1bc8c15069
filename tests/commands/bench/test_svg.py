"""Charts as a page has them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.commands.bench.records import point, record
from tests.commands.bench.scenes import (
    POSITIONS,
    SPEED_UP,
    THROUGHPUT,
    all_of,
    parsed,
    pictures,
    scene_of,
    texts,
)
from vpatch.commands.bench.report import plots
from vpatch.commands.bench.report.plots import plots_of
from vpatch.commands.bench.report.svg import COLOURS, Axis, Chart, Mark, svg_of

ODD = "$\\frac{1}$ <&\"'> \u202e\u6f22 var(--x)"
SIZE = (300, 200)
UNIT = Axis("a label", 0, 1)


@pytest.fixture(scope="module")
def one_side():
    """The plots of one side, by their titles."""
    return all_of(record(concurrency=(1, 4, 8, 16)))


@pytest.fixture(scope="module")
def two_sides():
    """The plots of two sides, each of which has its own pictures; the first has an odd name."""
    bench = record(sides=(1.0, 1.5), concurrency=(1, 2, 4, 8), repeats=1)
    bench["sides"][0]["name"] = ODD
    return plots_of(scene_of(bench))


def drawn(*marks, x=UNIT, y=UNIT, heading=""):
    return svg_of(Chart(heading, x, y, marks), SIZE, "a chart")


def labels(axis, pixels=400, letter=8):
    return [label for _, label in axis.ticks(pixels, lambda label: letter * len(label) + 12)]


def place_of(picture, text):
    (element,) = [one for one in parsed(picture).iter("text") if one.text == text]
    return float(element.get("x")), float(element.get("y"))


def dots_of(picture):
    """The fill of each dot, and where it is."""
    for element in parsed(picture).iter("path"):
        if element.get("class").startswith("dot"):
            x, y = re.findall(r"[-\d.]+", element.get("transform"))
            yield element.get("style"), float(x), float(y)


# Axes


def test_ticks_are_whole_numbers(one_side):
    assert texts(one_side[SPEED_UP].panels[0])[:3] == ["1", "2", "3"]
    assert texts(one_side[THROUGHPUT].panels[0])[:4] == ["1", "4", "8", "16"]
    assert texts(one_side[POSITIONS].panels[0])[:3] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 0.3, ["0.0", "0.1", "0.2", "0.3"]),
        (0.9, 1.1, ["0.90", "0.95", "1.00", "1.05"]),
        (-3, 3, ["-3", "-2", "-1", "0", "1", "2", "3"]),
        (0, 479.8, ["0", "100", "200", "300", "400"]),
        (0, 1e7, ["0", "5000000"]),
        (0, 3e-4, ["0.0000", "0.0001", "0.0002"]),
    ],
)
def test_ticks_are_round_numbers_that_have_room(low, high, expected):
    assert labels(Axis("x", low, high), pixels=240) == expected


def test_not_every_of_many_values_has_a_tick():
    linear = Axis("x", 0, 26, range(1, 26))
    assert labels(linear, pixels=400) == [str(value) for value in range(1, 26, 2)]
    doubling = Axis("x", 1, 25, range(1, 26), doubling=True)
    ticks = doubling.ticks(400, lambda label: 8 * len(label) + 12)
    assert " ".join(label for _, label in ticks) == "1 2 3 4 5 7 9 11 15 19 25"
    for (one, label), (other, next_label) in pairwise(ticks):
        assert other - one >= 4 * (len(label) + len(next_label)) + 12


def test_each_axis_has_its_label():
    picture = parsed(drawn(x=Axis("across", 0, 1), y=Axis("up", 0, 1)))
    turned = {one.text: one.get("transform") for one in picture.iter("text")}
    assert (turned["across"], turned["up"]) == (None, "rotate(-90)")


def test_a_mark_is_where_the_labels_say():
    spot = Mark("dot", [(0.4, 7.5)], "line-1", shape="M0 0")
    picture = drawn(spot, y=Axis("y", 0, 20))
    ((_, x, y),) = dots_of(picture)
    assert x == place_of(picture, "0.4")[0]
    below, above = (place_of(picture, label)[1] for label in ("5", "10"))
    assert y + 0.35 * 12 == pytest.approx((above + below) / 2, abs=0.02)


def test_each_doubling_is_as_long():
    spots = Mark("dot", [(value, 0) for value in (1, 2, 4, 8)], "line-1", shape="M0 0")
    picture = drawn(spots, x=Axis("x", 1, 8, (1, 8), doubling=True))
    first, *_, last = places = [x for _, x, _ in dots_of(picture)]
    assert places == pytest.approx([first + n * (last - first) / 3 for n in range(4)], abs=0.01)
    assert (place_of(picture, "1")[0], place_of(picture, "8")[0]) == (first, last)


def test_large_numbers_are_written_out():
    bench = record(ks=(0,), repeats=1)
    for one in bench["points"]:
        one["measured"]["output_tokens_per_second"] *= 1e5
    (panel,) = plots._throughput(scene_of(bench)).panels
    assert "10000000" in texts(panel)
    assert not any("e" in text for text in texts(panel) if text[0].isdigit())


# Marks


def test_lines_end_where_the_axes_end_and_dots_do_not():
    line = Mark("line", [(-1, 0.5), (9, 0.5)], "line-1", dash="5 2")
    picture = parsed(drawn(line, Mark("dot", [(1, 1)], "line-2", shape="M1 2")))
    (within,) = picture.findall("svg")
    assert [(one.get("class"), one.get("stroke-dasharray")) for one in within] == [("line", "5 2")]
    corner = [float(within.get(name)) for name in ("x", "y", "width", "height")]
    assert [float(number) for number in within.get("viewBox").split()] == corner
    ((_, x, y),) = dots_of(drawn(Mark("dot", [(1, 1)], "line-2", shape="M1 2")))
    assert (x, y) == pytest.approx((corner[0] + corner[2], corner[1]), abs=0.02)


def test_hollow_dots_have_the_colour_of_the_page():
    kinds = ("dot", "dot hollow")
    picture = drawn(*(Mark(kind, [(0, 0)], "line-3", shape="M1 2") for kind in kinds))
    assert [style for style, _, _ in dots_of(picture)] == [
        f"stroke: var(--line-3); fill: var(--{fill})" for fill in ("line-3", "page")
    ]


# Names


def test_a_side_of_which_nothing_was_measured_has_no_picture():
    bench = record(sides=(1.0, 1.5))
    bench["points"] = [
        point(None, side=1, k=p["k"], concurrency=p["concurrency"], repeat=p["repeat"])
        if p["side"]
        else p
        for p in bench["points"]
    ]
    plot = plots._throughput(scene_of(bench))
    assert [texts(panel)[-1] for panel in plot.panels] == ["A"]


def test_names_are_shown_as_they_are(two_sides):
    panels = [panel for plot in two_sides for panel in plot.panels]
    of_side = [panel for panel in panels if ODD in " ".join(texts(panel))]
    assert len(of_side) == len(panels) / 2
    assert all(ODD in parsed(panel).get("aria-label") for panel in of_side)


def test_a_long_heading_has_several_lines_and_the_plot_its_size():
    short, long = (parsed(drawn(heading=heading)) for heading in ("A", "a long name " * 12))
    lines = [one for one in long.iter("text") if one.get("font-weight")]
    assert len(lines) == 6
    assert " ".join(one.text for one in lines) == ("a long name " * 12).strip()
    assert float(long.get("height")) == pytest.approx(200 + 5 * 16.8, abs=1)
    heights = [float(one.find("svg").get("height")) for one in (short, long)]
    assert heights[1] == pytest.approx(heights[0], abs=1)


# The page


def test_the_same_again_is_the_same(one_side):
    again = all_of(record(concurrency=(1, 4, 8, 16)))
    assert pictures(again.values()) == pictures(one_side.values())


def test_a_picture_has_no_ids_and_refers_to_nothing(two_sides):
    for picture in pictures(two_sides):
        assert not any("id" in element.attrib for element in parsed(picture).iter())
        assert re.search(r"href|url\(", picture) is None


def test_a_picture_has_the_pages_colours_and_font_and_nothing_of_its_own(one_side, two_sides):
    lines = [f"line-{number}" for number in range(COLOURS)]
    colours = {f"var(--{name})" for name in ("text", "muted", "grid", "page", *lines)}
    for picture in pictures(one_side.values()) + pictures(two_sides):
        for element in parsed(picture).iter():
            style = element.get("style", "")
            assert set(re.findall(r"(?:fill|stroke): *([^;]*)", style)) <= {"none", *colours}
            assert not {"fill", "stroke", "font-family"} & element.attrib.keys()
        for word in ("#", "font-family", "<style", "http", "xmlns"):
            assert word not in picture
        assert re.search(r"\d\.\d{3}", picture) is None


def test_a_picture_has_a_name_or_is_hidden(one_side):
    for plot in one_side.values():
        for panel in plot.panels:
            root = parsed(panel)
            assert (root.get("role"), root.get("aria-hidden")) == ("img", None)
            assert root.get("aria-label").startswith(plot.title)
        for sample, _ in plot.key:
            root = parsed(sample)
            assert (root.get("role"), root.get("aria-hidden")) == (None, "true")
