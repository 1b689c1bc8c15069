"""Records of somebody else's: they are read, or refused in words."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import pytest
from jinja2 import Environment

from tests.commands.bench.records import MACHINE, record, validated
from tests.helpers import fails
from tests.util.test_validation import RAW
from vpatch.commands.bench.cells import BenchCell, Load
from vpatch.commands.bench.load_result import LATENCIES, LoadLatency, LoadResult
from vpatch.commands.bench.match import aligned, differences, in_common, joined
from vpatch.commands.bench.measure import LoadRun
from vpatch.commands.bench.record import RecordError, point_of, read_record, text_of
from vpatch.commands.bench.report.markdown import csv_of, report_of
from vpatch.commands.bench.report.page import page_of
from vpatch.declare.bench import Shape
from vpatch.declare.smoke import Timeouts
from vpatch.harness.predict import Counters

PIN = {"tree": "vllm", "version": "0.23.0", "ref": None, "digest": "sha256:1"}
SUBJECT = [{"pin": PIN, "patches": [{"id": "a", "digest": "b"}], "files": [{"path": "x"}]}]
WRONG = (
    None,
    "",
    -1,
    1e999,
    [],
    {},
    True,
    "x\n\n# Approved\n![](http://evil/p.png)<script>\x1b[2J",
)


@pytest.fixture
def compiled_once(monkeypatch):
    """Pages whose template is compiled for the first of them alone."""
    compile_template, codes = Environment.compile, {}

    def compile_once(self, source, *args, **options):
        if source not in codes:
            codes[source] = compile_template(self, source, *args, **options)
        return codes[source]

    monkeypatch.setattr(Environment, "compile", compile_once)


@pytest.fixture
def small():
    found = record(ks=(0, 1), concurrency=(1,), repeats=1)
    found["sides"][0]["subject"] = SUBJECT
    return found


@pytest.fixture
def read(tmp_path):
    def read(found):
        file = tmp_path / "bench.json"
        file.write_text(found if isinstance(found, str) else json.dumps(found))
        return read_record(file)

    return read


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in children:
        if isinstance(one, (dict, list)) and len(one) < 50:
            yield from places(one, (*path, key))
        else:
            yield (*path, key)


def test_a_whole_one(small, read):
    assert json.loads(text_of(read(small))) == small


def test_keys_are_written_in_the_order_of_all_files(small, read):
    """The schema has another order for `planned`, for the plan, and for what a cluster measured."""
    (side,) = small["sides"]
    pin = {"tree": "vllm", "kind": "pypi", "version": "0.23.0", "digest": "sha256:1"}
    side["subject"] = [SUBJECT[0] | {"pin": pin | {"origin": "x.whl", "ref": None}}]
    image = {"name": "x", "id": "sha256:2"}
    small["sides"] = [{"point": {"hardware": "h200"}} | side | {"nodes": ["n"], "image": image}]
    small["points"] = [{"node": "n"} | point for point in small["points"]]
    small["machines"] = {"n": {"machine": MACHINE, "inherited": {}}}
    last = ("sides", "planned", "points", "machines")
    small = {key: small[key] for key in (*(k for k in small if k not in last), *last)}
    for point in small["points"]:
        point["measured"]["cached_tokens"] = point["measured"].pop("cached_tokens")
    assert text_of(read(small)) == json.dumps(small, indent=1) + "\n"


def test_an_odd_figure_costs_no_record(small, tmp_path):
    """Hours of measuring may be behind it."""
    latency = LoadLatency(-1.0, 1.0, 1.0, 1.0, (1.0,) * 101)
    result = LoadResult(math.inf, 1, 2, 3, 0.0, dict.fromkeys(LATENCIES, latency), Counters(), -1)
    load, cell = Load(Shape(input=8, output=7), 1, 2, 3), BenchCell("tiny", 0, "mtp", 1, Timeouts())
    files = tmp_path / "x.log", tmp_path / "x.json"
    record = validated(small)
    record.points = [point_of(LoadRun(0, cell, load, 0, *files, result))]
    measured = json.loads(text_of(record))["points"][0]["measured"]
    assert (measured["seconds"], measured["cached_tokens"]) == (math.inf, -1)
    assert measured["latency_ms"]["itl"]["mean"] == -1.0


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_whatever_is_wrong_with_it(small, read, wrong, monkeypatch):
    monkeypatch.setattr("vpatch.commands.bench.report.page.plots_of", lambda _: [])
    refused = set()
    for path in list(places(small))[1:]:
        found = copy.deepcopy(small)
        at = found
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = copy.deepcopy(wrong)
        try:
            theirs = read(found)
        except RecordError as error:
            refused.add(str(error))
            continue
        both = aligned([validated(small), theirs])
        assert isinstance(differences(*both), list)
        if in_common(both):
            both = [joined(both, ["nothing"])]
        for one in both:
            text = report_of(one) + csv_of(one) + page_of(one)
            assert "\x1b" not in text
            assert "<script" not in report_of(one) + page_of(one)
            assert "![" not in report_of(one)
            assert "\n# Approved" not in report_of(one)
    assert len(refused) > 20
    assert [said for said in refused if any(raw in said for raw in RAW)] == []


@pytest.mark.parametrize("missing", ["models", "made", "planned", "client", "plan", "sides"])
def test_what_is_not_there(small, read, missing):
    del small[missing]
    with fails("bench.unreadable-record") as error:
        read(small)
    assert missing in error.value.what or "not a record" in error.value.what


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{", "[]", '{"record-version": 1, "points": [], "sides": [], "plan": {}}'],
)
def test_what_is_none(read, text):
    with pytest.raises(RecordError):
        read(text)


def test_a_point_of_no_side(small, read):
    small["points"][0]["side"] = 1
    with fails("bench.unreadable-record", "a side that it does not have"):
        read(small)


def test_a_time_without_its_zone(small, read):
    small["made"] = "2026-11-21T18:00:00"
    with pytest.raises(RecordError, match="made"):
        read(small)


OLD = Path(__file__).parents[2] / "resources" / "records_v1" / "bench"


@pytest.mark.parametrize("name", ["two-sides", "servers"])
def test_a_record_of_version_1_is_read(name):
    """Its report is the one that was made of it then, byte for byte."""
    written = json.loads((OLD / name / "bench.json").read_text())
    assert written["record-version"] == 1
    upgraded = read_record(OLD / name)
    assert upgraded.schema_version == 2
    assert "record-version" not in json.loads(text_of(upgraded))
    assert upgraded.points[0].measured.latency_ms.ttft.quantiles
    assert report_of(upgraded) == (OLD / name / "report.md").read_text()
    assert csv_of(upgraded) == (OLD / name / "results.csv").read_text()


def test_records_of_both_versions_are_compared(tmp_path):
    old = read_record(OLD / "two-sides")
    (tmp_path / "bench.json").write_text(text_of(old))
    new = read_record(tmp_path)
    assert new == old
    assert list(differences(old, new)) == []
    assert joined([old, new], []).schema_version == 2


def test_what_is_not_known_may_be_null(small, read):
    """As `--json` prints it."""
    small["sides"][0] |= {"servers": None, "image": None}
    small["plan"]["method"] = None
    content = json.loads(text_of(read(small)))
    assert not {"servers", "image"} & content["sides"][0].keys()
    assert "method" not in content["plan"]
