"""Pictures as a page has them: each of these is rendered."""

from __future__ import annotations

import re

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
from vpatch.commands.bench.report import plots, svg
from vpatch.commands.bench.report.plots import plots_of

pytestmark = pytest.mark.slow

ODD = "$\\frac{1}$ <&\"'> #fe0001"


@pytest.fixture(scope="module")
def one_side():
    """The plots of one side, by their titles."""
    return all_of(record(concurrency=(1, 4, 8, 16)))


@pytest.fixture(scope="module")
def two_sides():
    """The plots of two sides, each of which has its own pictures; the first has an odd name."""
    found = record(sides=(1.0, 1.5), concurrency=(1, 2, 4, 8), repeats=1)
    found["sides"][0]["name"] = ODD
    return plots_of(scene_of(found))


def test_ticks_are_whole_numbers(one_side):
    assert texts(one_side[SPEED_UP].panels[0])[:4] == ["3", "2", "1", "k, speculative tokens"]
    assert texts(one_side[THROUGHPUT].panels[0])[:4] == ["16", "8", "4", "1"]
    assert texts(one_side[POSITIONS].panels[0])[:3] == ["2", "1", "0"]


def test_large_numbers_are_written_out():
    found = record(ks=(0,), repeats=1)
    for one in found["points"]:
        one["measured"]["output_tokens_per_second"] *= 1e5
    (panel,) = plots._throughput(scene_of(found)).panels
    assert "10000000" in texts(panel)
    assert not any("e" in text for text in texts(panel) if text[0].isdigit())


def test_a_side_of_which_nothing_was_measured_has_no_picture():
    found = record(sides=(1.0, 1.5))
    found["points"] = [
        point(None, side=1, k=p["k"], concurrency=p["concurrency"], repeat=p["repeat"])
        if p["side"]
        else p
        for p in found["points"]
    ]
    plot = plots._throughput(scene_of(found))
    assert [texts(panel)[-1] for panel in plot.panels] == ["A"]


def test_names_are_shown_as_they_are(two_sides):
    panels = [panel for plot in two_sides for panel in plot.panels]
    of_side = [panel for panel in panels if any(text.startswith(ODD) for text in texts(panel))]
    assert len(of_side) == len(panels) / 2
    assert all(ODD in parsed(panel).get("aria-label") for panel in of_side)


def test_the_same_again_is_the_same_whatever_the_users_settings_are(one_side):
    import matplotlib as mpl

    theirs = {"font.size": 30, "xtick.major.size": 20, "grid.linestyle": ":", "svg.hashsalt": None}
    with mpl.rc_context(theirs):
        before = dict(mpl.rcParams)
        again = all_of(record(concurrency=(1, 4, 8, 16)))
        assert pictures(again.values()) == pictures(one_side.values())
        assert dict(mpl.rcParams) == before


def test_ids_are_told_apart_and_referred_to(two_sides):
    found = pictures(two_sides)
    ids = [one for picture in found for one in re.findall(r'\sid="([^"]*)"', picture)]
    assert len(ids) == len(set(ids))
    for picture in found:
        own = set(re.findall(r'\sid="([^"]*)"', picture))
        used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', picture))
        assert own == used != set()


def test_a_picture_has_the_pages_colours_and_font_and_nothing_of_its_own(one_side, two_sides):
    for picture in pictures(one_side.values()) + pictures(two_sides):
        text = picture.replace(ODD[-7:], "")  # a name may look like a colour
        assert set(re.findall(r"(?:fill|stroke): *([^;\"]*)", text)) <= {
            "none",
            *(f"var(--{name})" for name in svg._INKS),
        }
        for word in ("#fe00", "font-family", "<style", "http", "xmlns", "metadata", "DOCTYPE"):
            assert word not in text
        assert re.search(r"\d\.\d{3}", text) is None


def test_a_picture_has_a_name_or_is_hidden(one_side):
    for plot in one_side.values():
        for panel in plot.panels:
            root = parsed(panel)
            assert (root.get("role"), root.get("aria-hidden")) == ("img", None)
            assert root.get("aria-label").startswith(plot.title)
        for sample, _ in plot.key:
            root = parsed(sample)
            assert (root.get("role"), root.get("aria-hidden")) == (None, "true")
