from __future__ import annotations

import re

import pytest

from tests.bench.records import record
from tests.bench.scenes import (
    POSITIONS,
    SPEED_UP,
    THROUGHPUT,
    all_of,
    parsed,
    pictures,
    scene_of,
    texts,
)
from vpatch.bench import svg
from vpatch.bench.plots import plots_of

pytestmark = pytest.mark.slow


def test_ticks_are_whole_numbers():
    found = all_of(record(ks=(0, 1, 2, 3), concurrency=(1, 4, 8, 16)))
    assert texts(found[SPEED_UP].panels[0])[:4] == ["3", "2", "1", "k, speculative tokens"]
    assert texts(found[THROUGHPUT].panels[0])[:4] == ["16", "8", "4", "1"]
    assert texts(found[POSITIONS].panels[0])[:3] == ["2", "1", "0"]


def test_names_are_shown_as_they_are():
    found = record(sides=(1.0, 1.5), concurrency=(1, 2, 4, 8), repeats=1)
    found["sides"][0]["name"] = name = "$\\frac{1}$ <&\"'> #fe0001"
    panels = [panel for plot in plots_of(scene_of(found)) for panel in plot.panels]
    of_side = [panel for panel in panels if any(text.startswith(name) for text in texts(panel))]
    assert len(of_side) == len(panels) / 2
    assert all(name in parsed(panel).get("aria-label") for panel in of_side)


def test_the_same_again_is_the_same_whatever_the_users_settings_are():
    import matplotlib as mpl

    once = pictures(record())
    theirs = {"font.size": 30, "xtick.major.size": 20, "grid.linestyle": ":", "svg.hashsalt": None}
    with mpl.rc_context(theirs):
        before = dict(mpl.rcParams)
        assert pictures(record()) == once
        assert dict(mpl.rcParams) == before


def test_ids_are_told_apart_and_referred_to():
    found = pictures(record(sides=(1.0, 1.5), concurrency=(4, 4 * 4)))
    ids = [one for picture in found for one in re.findall(r'\sid="([^"]*)"', picture)]
    assert len(ids) == len(set(ids))
    for picture in found:
        own = set(re.findall(r'\sid="([^"]*)"', picture))
        used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', picture))
        assert own == used != set()


def test_a_picture_has_the_pages_colours_and_font_and_nothing_of_its_own():
    for picture in pictures(record(repeats=1)):
        assert set(re.findall(r"(?:fill|stroke): *([^;\"]*)", picture)) <= {
            "none",
            *(f"var(--{name})" for name in svg._INKS),
        }
        for word in ("#fe00", "font-family", "<style", "http", "xmlns", "metadata", "DOCTYPE"):
            assert word not in picture
        assert re.search(r"\d\.\d{3}", picture) is None


def test_a_picture_has_a_name_or_is_hidden():
    for plot in all_of(record()).values():
        for panel in plot.panels:
            root = parsed(panel)
            assert (root.get("role"), root.get("aria-hidden")) == ("img", None)
            assert root.get("aria-label").startswith(plot.title)
        for sample, _ in plot.key:
            root = parsed(sample)
            assert (root.get("role"), root.get("aria-hidden")) == (None, "true")
