from __future__ import annotations

import re

import pytest

from tests.commands.bench.reading import RECORDS, cells, read, table
from tests.commands.bench.records import point, record, validated
from vpatch.commands.bench.summary import between, rows_of, sides_of, speed_ups


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Pictures take long, and are no matter here."""
    monkeypatch.setattr("vpatch.commands.bench.report.page.plots_of", lambda _: [])


def test_results():
    found = record(accepted=0.5, ks=(0, 2))
    ratios = list(speed_ups(rows_of(validated(found))).values())
    assert table(read(found), "Throughput and acceptance") == [
        ["1", "0", "3", "100.00 ± 1.00", "-", "", "-", "-", ""],
        ["1", "2", "3", "160.00 ± 1.60", str(ratios[0]), "better", "37.5", "1.750", "50.0 / 25.0"],
        ["4", "0", "3", "303.14 ± 3.03", "-", "", "-", "-", ""],
        ["4", "2", "3", "485.03 ± 4.85", str(ratios[1]), "better", "37.5", "1.750", "50.0 / 25.0"],
    ]


@pytest.mark.parametrize(
    ("changes", "verdict", "kind"),
    [
        ({"gain": 0.3}, "better", "better"),
        ({"gain": -0.3}, "worse", "worse"),
        ({"gain": 0.001}, "within the noise", "unsaid"),
        ({"repeats": 2}, "not judged", "unsaid"),
    ],
)
def test_only_a_result_looks_like_one(changes, verdict, kind):
    found = record(ks=(0, 1), concurrency=(1,), **changes)
    row = cells(read(found), "Throughput and acceptance")[1]
    assert row[5].text == verdict
    assert [cell.attributes.get("class") for cell in row[4:6]] == [f"number {kind}", kind]


def test_some_runs_of_a_row_failed():
    found = record(ks=(0,), concurrency=(1,))
    found["points"][1] = point(None, repeat=1)
    (row,) = table(read(found), "Throughput and acceptance")
    assert row[2:4] == ["2 of 3", "99.50 ± 0.71"]


def test_one_run_has_no_spread():
    found = record(ks=(0,), concurrency=(1,), repeats=1)
    (row,) = table(read(found), "Throughput and acceptance")
    assert row[2:4] == ["1", "100.00"]


def test_latencies():
    found = record(ks=(0,), concurrency=(1,), repeats=1)
    page = read(found)
    ms = [["12.00", "12.00", "17.40", "17.88"], ["10.00", "10.00", "14.50", "14.90"]]
    e2el = ["322.00", "322.00", "466.90", "479.78"]
    assert table(page, "Latencies") == [["1", "0", *ms[0], *ms[1], *ms[1], *e2el]]
    (heading,) = [one for one in page.all("h3") if one.text == "Latencies"]
    heads = [[one.text for one in row.all("th")] for row in heading.parent.one("thead").all("tr")]
    assert heads[0] == ["", "TTFT, ms", "TPOT, ms", "ITL, ms", "E2EL, ms"]
    assert heads[1] == ["concurrency", "k", *(["mean", "p50", "p95", "p99"] * 4)]


def test_headings_span_all_columns():
    for found in read(RECORDS["several"]).all("table", class_="numbers"):
        widths = {
            sum(int(cell.attributes.get("colspan", 1)) for cell in row.all("th") + row.all("td"))
            for row in found.all("tr")
        }
        assert len(widths) == 1


def test_a_line_stands_above_each_further_concurrency():
    page = read(record(ks=(0, 1), concurrency=(1, 4, 8), repeats=1))
    (heading,) = [one for one in page.all("h3") if one.text == "Throughput and acceptance"]
    rows = heading.parent.one("tbody").all("tr")
    assert [row.attributes.get("class") for row in rows] == [None, None, "next", None, "next", None]


def test_sides_against_the_first():
    found = record(ks=(0, 1), concurrency=(4,), sides=(1.0, 1.2, 0.8))
    pairs = sides_of(rows_of(validated(found)))
    ratios = between(pairs)
    page = read(found)
    rows = cells(page, "Against A")
    texts = [[cell.text for cell in row] for row in rows]
    assert [row[:3] for row in texts] == [
        ["4", "0", "B / A"],
        ["4", "0", "C / A"],
        ["4", "1", "B / A"],
        ["4", "1", "C / A"],
    ]
    for key, row in zip(pairs, texts, strict=True):
        expected = [ratio for (of, _), ratio in ratios.items() if of == key]
        assert row[3::2] == [str(ratio) for ratio in expected]
        assert row[4::2] == [ratio.verdict for ratio in expected]
    assert texts[0][4::2] == ["better", "within the noise", "better", "better"]
    assert texts[1][4::2] == ["worse", "within the noise", "worse", "worse"]
    assert "of tokens/s more is better, of latencies less" in page.text
    names = [row[2] for row in table(page, "Throughput and acceptance")]
    assert names == ["A", "B", "C"] * 2


def test_sides_that_have_one_k_each():
    rows = table(read(RECORDS["servers"]), "Against A")
    assert [row[:3] for row in rows] == [["1", "2 / 0", "B / A"], ["4", "2 / 0", "B / A"]]


def test_one_side_is_not_against_anything():
    titles = [one.text for one in read(RECORDS["whole"]).all("h3")]
    assert not any(title.startswith("Against") for title in titles)


def test_intervals_are_of_all_models_together():
    alone = record(ks=(0, 1), concurrency=(1,), models=("one",))
    among = record(ks=(0, 1), concurrency=(1,), models=("one", "two"))
    widths = []
    for found in (alone, among):
        page = read(found)
        (heading, *_) = [one for one in page.all("h3") if one.text == "Throughput and acceptance"]
        row = heading.parent.one("tbody").all("tr")[1]
        low, high = re.findall(r"[\d.]+", row.all("td")[4].text)[1:]
        widths.append(float(high) - float(low))
    assert widths[0] < widths[1]
