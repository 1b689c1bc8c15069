from __future__ import annotations

from functools import cache

import pytest

from tests.commands.bench.browser import fixture_open_page  # noqa: F401
from tests.commands.bench.records import point, record, validated
from vpatch.commands.bench.report.page import page_of

SCHEMES = ("light", "dark")
LATENCIES = [f"Latencies at concurrency {c}" for c in (1, 16)]
SETS = ["Speed-up over k", "Output tokens/s over concurrency", "Acceptance rate over k"]
SETS += ["Acceptance by position", *LATENCIES]
LONG = "a-very-long-name.of-a-model+without-any-space-" + "x" * 60


def failing(found, side, k):
    """The same record, but that a side did not start with a k."""
    names = ("side", "model", "k", "shape", "concurrency", "repeat")
    found["points"] = [
        point(None, **{name: p[name] for name in names}) if (p["side"], p["k"]) == (side, k) else p
        for p in found["points"]
    ]
    return found


@cache
def page(kind):
    """One side as the default plan has it, or two of which one has faults; both in all verdicts."""
    levels, ks = (1, 4, 8, 16), (0, 1, 2, 3, 4)
    if kind == "one":
        return page_of(validated(record(ks=ks, concurrency=levels, accepted=0.8)))
    found = record(ks=ks[:4], concurrency=levels, sides=(1.0, 1.2), gain=0.01, accepted=0.5)
    found = failing(found, side=1, k=3)
    for one in found["points"]:
        if one["fault"]:
            one["fault"] |= {"cause": "x" * 90, "ending": ["Traceback", "KeyError: " + "y" * 200]}
        if one["side"] == 1 and one["k"] == 2 and one["measured"]:
            one["measured"]["output_tokens_per_second"] *= 0.3
    return page_of(validated(found | {"notes": ["they differ in flags: max-num-seqs is 8 and 16"]}))


@pytest.mark.parametrize("kind", ["one", "two"])
def test_it_asks_for_nothing_and_nothing_is_wrong(open_page, kind):
    with open_page(page(kind)) as opened:
        assert opened.complaints == []
        assert [url.rpartition("/")[2] for url in opened.requests] == ["page.html"]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("kind", "sides"), [("one", 1), ("two", 2)])
def test_plots(open_page, kind, sides, width):
    expected = [name for name in SETS for _ in range(sides * (4 if name in LATENCIES else 1))]
    with open_page(page(kind), width=width) as opened:
        plots = opened.plots()
    assert [plot["caption"].partition("\n")[0].strip() for plot in plots] == expected
    for plot in plots:
        assert plot["name"]
        assert plot["drawn"] > 2, plot
        assert plot["texts"] > 5, plot
        assert plot["width"] > 200, plot
        assert plot["height"] > 150, plot
        assert plot["left"] >= 0, plot
        assert plot["right"] <= width, plot
        assert plot["overflow"] < 1, plot
        assert plot["over"] == [], plot
        assert plot["within"], plot


def test_large_and_small_figures_stay_in_their_plots(open_page):
    found = record(ks=(0, 1), concurrency=(1, 256))
    for one in found["points"]:
        measured = one["measured"]
        measured["output_tokens_per_second"] *= 1e4
        for latency in measured["latency_ms"].values():
            latency["quantiles"] = [value * 1e5 for value in latency["quantiles"]]
        measured["latency_ms"]["itl"]["quantiles"] = [1e-4 * n for n in range(101)]
    with open_page(page_of(validated(found))) as opened:
        plots = opened.plots()
    assert len(plots) == 12
    assert [plot["name"] for plot in plots if plot["overflow"] >= 1 or plot["over"]] == []


@pytest.mark.parametrize("name", [LONG, "\u6f22" * 40, "many words of text " * 9])
def test_long_names_stay_in_their_plots(open_page, name):
    bench = record(sides=(1.0, 1.1), concurrency=tuple(range(1, 10)), repeats=1)
    bench["sides"][1]["name"] = name
    with open_page(page_of(validated(bench)), width=400) as opened:
        plots = opened.plots()
    assert sum(name.strip() in plot["name"] for plot in plots) == 12
    assert [plot["name"] for plot in plots if plot["overflow"] >= 1 or plot["over"]] == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["one", "two"])
def test_contrast(open_page, kind, scheme):
    with open_page(page(kind), scheme) as opened:
        found = opened.contrasts()
    assert {one["kind"] for one in found} == {"page", "table", "plot", "line"}
    assert [one for one in found if one["kind"] != "line" and one["contrast"] < 4.5] == []
    assert [one for one in found if one["contrast"] < 3] == []


def test_light_dark_and_paper(open_page):
    with open_page(page("one"), "light") as light, open_page(page("one"), "dark") as dark:
        assert light.background() == "rgb(255, 255, 255)"
        assert dark.background() == "rgb(20, 23, 27)"
        dark.page.emulate_media(media="print", color_scheme="dark")
        assert dark.background() == "rgb(255, 255, 255)"


def test_a_narrow_window_shows_all_without_scrolling_sideways(open_page):
    found = record(models=(LONG,), sides=(1.0, 1.1, 1.2), repeats=2)
    found["name"] = LONG
    found["plan"]["flags"] = {"speculative-config": {"x" * 100: 1}}
    found["sides"][0]["what"] = "https://" + "x" * 120
    with open_page(page_of(validated(found)), width=400) as opened:
        assert opened.sideways() == 0
        scrolling = opened.page.evaluate(
            "[...document.querySelectorAll('.scrolls')].filter(e => e.scrollWidth > e.clientWidth)"
            ".map(e => e.getAttribute('aria-label'))"
        )
    assert f"Latencies, {LONG}, 24/32" in scrolling


def test_links_lead_somewhere(open_page):
    with open_page(page("one")) as opened:
        links = opened.page.eval_on_selector_all("nav a", "all => all.map(a => a.hash)")
        assert links == ["#part-1", "#terms"]
        assert all(opened.page.query_selector(link) for link in links)
