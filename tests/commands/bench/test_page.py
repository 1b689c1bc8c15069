from __future__ import annotations

import copy
import re
from itertools import pairwise

import pytest

from tests.commands.bench.reading import RECORDS, Element, Reader, read, said, table
from tests.commands.bench.records import MACHINE, record, validated
from vpatch.commands.bench.report.page import page_of

ODD = "a<b> & \"q\" 'x' {{ 1 }} $y$"


@pytest.fixture(scope="module")
def pages():
    return {name: page_of(validated(one)) for name, one in RECORDS.items()}


@pytest.mark.parametrize("name", RECORDS)
def test_any_record_has_a_page(pages, name):
    page = Reader(pages[name]).root
    assert page.one("h1").text == validated(RECORDS[name]).name
    for figure in page.all("figure"):
        assert figure.all("svg", role="img")
        assert figure.one("figcaption").one("h3").text
        assert figure.one("figcaption").one("p").text
    for missing in page.all("div", class_="missing"):
        assert missing.one("p").text.startswith("Not drawn: ")
    drawn_or_not = len(page.all("figure")) + len(page.all("div", class_="missing"))
    assert drawn_or_not >= 5 or name == "all failed"


@pytest.mark.parametrize("name", RECORDS)
def test_ids_are_unique_and_references_lead_to_them(pages, name):
    ids = re.findall(r'\sid="([^"]*)"', pages[name])
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]*)', pages[name])
    assert set(used) <= set(ids)


@pytest.mark.parametrize("name", ["whole", "several"])
def test_a_page_refers_to_nothing_else(pages, name):
    page = Reader(pages[name]).root
    assert page.all("script") == page.all("img") == page.all("iframe") == []
    links = re.findall(r'\s(?:src|href|action|data|poster|srcset)="([^"]*)"', pages[name])
    assert {link for link in links if not link.startswith("#")} == {"data:,"}
    assert "url(" not in pages[name]
    assert "@import" not in pages[name]
    assert "://" not in pages[name]
    assert re.search(r"\son\w+=", pages[name]) is None
    (policy,) = [one for one in page.all("meta") if "http-equiv" in one.attributes]
    assert policy.attributes["content"].startswith("default-src 'none'; ")


def test_the_same_record_is_the_same_page(pages):
    assert page_of(validated(copy.deepcopy(RECORDS["of one point"]))) == pages["of one point"]


def test_head(pages):
    page = Reader(pages["whole"]).root
    assert page.one("title").text == "one: benchmark of 2026-11-21 18:00 UTC"
    about = page.one("header").one("p").text
    assert about == (
        "Benchmark of 2026-11-21 18:00 UTC , made by vpatch 0.1.0 with vLLM's own "
        "vllm bench serve ; 24 of 24 runs were measured."
    )
    assert page.one("time").attributes["datetime"] == "2026-11-21T18:00:00+00:00"


def test_time_is_utc():
    found = record(ks=(0,), concurrency=(1,), repeats=1) | {"made": "2026-11-21T18:00:00+05:00"}
    assert "2026-11-21 13:00 UTC" in read(found).one("title").text


def test_whatever_is_said_is_only_text():
    found = record(models=(ODD,), sides=(1.0, 1.2), ks=(0, 1), repeats=1)
    found |= {"name": ODD, "asked": {"recipe": ODD}}
    found["sides"][1] |= {"name": ODD, "what": ODD, "inherited": {"A": ODD}}
    found["sides"][0]["machine"] = MACHINE | {"processor": ODD, "problem": ODD}
    found["plan"] |= {"flags": {"x": ODD}, "environment": {"X": ODD}}
    found["points"][-1] |= {"measured": None, "log": ODD}
    found["points"][-1]["fault"] = {"kind": "hangs", "what": ODD, "cause": ODD, "ending": [ODD]}
    page = read(found)
    assert len(page.all("b")) == 1
    assert page.one("h1").text == ODD
    (failed,) = page.one("section", class_="failed").all("li")
    assert failed.one("b").text == f"{ODD} {ODD} k = 1"
    assert f": hangs: {ODD} ({ODD})" in failed.text
    assert failed.one("code").text == failed.one("pre").text == ODD
    facts = said(page, "What was measured")
    assert facts["what"] == ["vLLM 0.23.0 with 6 patches", ODD]
    assert facts["inherited environment"] == ["-", f"A={ODD}"]
    assert f"{ODD}, 2 cores" in facts["machine"][0]
    plan = said(page, "How")
    assert (plan["flags"], plan["environment"]) == ([f"--x {ODD}"], [f"X={ODD}"])
    assert plan["asked for"] == [f"recipe={ODD}"]
    assert f"{ODD}, k = 1" in [one.text for one in page.all("li")]
    assert any(ODD in one.attributes["aria-label"] for one in page.all("svg", role="img"))


def test_every_model_and_shape_has_its_plots_and_tables(pages):
    page = Reader(pages["several"]).root
    titles = [one.text for one in page.all("h2")][2:-1]
    assert titles == ["one, 24/32", "one, s/9", "two, 24/32", "two, s/9"]
    sections = [one.parent for one in page.all("h2")][2:-1]
    assert [one.all("p", class_="words")[0].text for one in sections[:2]] == [
        "24 random input tokens, 32 output tokens",
        "prompts of sharegpt, d/s.json (sha256:aaaaaaaaaaaaaaaa), 9 output tokens",
    ]
    assert [link.text for link in page.one("nav").all("a")] == [*titles, "Terms"]
    anchors = [section.one("h2").attributes["id"] for section in sections]
    assert [link.attributes["href"] for link in page.one("nav").all("a")[:-1]] == [
        f"#{anchor}" for anchor in anchors
    ]
    for title, section in zip(titles, sections, strict=True):
        names = [one.attributes["aria-label"] for one in section.all("svg", role="img")]
        assert names
        assert all(name.endswith(title) for name in names)
        tables = section.all("table", class_="numbers")
        # Three sides with k = 0 and 1 at two concurrencies; two of them against the first.
        assert [len(one.one("tbody").all("tr")) for one in tables] == [12, 12, 8]


def test_all_failed(pages):
    page = Reader(pages["all failed"]).root
    assert page.all("figure") == []
    assert "Nothing was measured, and so nothing is drawn." in page.text
    assert [one.text for one in page.all("h3")] == ["Throughput and acceptance"]
    rows = table(page, "Throughput and acceptance")
    assert rows[0] == ["1", "0", "0 of 3", "-", "-", "", "-", "-", ""]


def test_tables_come_after_plots(pages):
    titles = [one.text for one in Reader(pages["whole"]).root.all("h3")]
    assert titles[5:] == ["Latencies at concurrency 4", "Throughput and acceptance", "Latencies"]


def test_a_figure_of_several_pictures_has_all_the_width():
    page = read(record(ks=(0, 1)))
    widths = [figure.attributes.get("class") for figure in page.all("figure")]
    assert widths == [None, None, None, None, "several many", "several many"]
    page = read(record(sides=(1.0, 1.1)))
    assert page.all("figure")[1].attributes["class"] == "several"


@pytest.mark.parametrize("term", ["TTFT", "TPOT", "ITL", "E2EL", "Acceptance rate", "Verdict", "k"])
def test_terms_are_explained(pages, term):
    terms = Reader(pages["whole"]).root.one("dl")
    found = [part for part in terms.parts if isinstance(part, Element)]
    (words,) = [after for one, after in pairwise(found) if (one.tag, one.text) == ("dt", term)]
    assert words.tag == "dd"
    assert words.text


def test_a_matrix_is_one_table_for_each_load():
    found = record(ks=(0, 2), concurrency=(1, 4), sides=(1.0, 2.0), accepted=0.5)
    for side, (release, device) in zip(
        found["sides"], [("0.21.0", "cpu"), ("0.23.0", "hopper")], strict=True
    ):
        side["engine"] = {"kind": "cpu", "vllm": release}
        side["point"] = {"vllm": release, "patches": "all", "hardware": device}
        side["nodes"] = [f"node-{device}"]
    page = Reader(page_of(validated(found))).root
    section = next(one.parent for one in page.all("h2") if one.text == "Matrix")
    assert [one.text for one in section.all("h3")] == [f"24/32 at concurrency {c}" for c in (1, 4)]
    first, _ = section.all("table")
    rows = [[cell.text for cell in row.all("td")] for row in first.one("tbody").all("tr")]
    assert [row[:6] for row in rows] == [
        ["tiny", k, side, release, "all", device]
        for k in "02"
        for side, release, device in (("A", "0.21.0", "cpu"), ("B", "0.23.0", "hopper"))
    ]
    assert rows[0][7:11] == ["-", "", "-", "-"]
    assert [row[8:11] for row in rows[2:]] == [["better", "37.5", "1.750"]] * 2
    assert "node-hopper" in page.text
    assert "Matrix" not in page_of(validated(record()))
