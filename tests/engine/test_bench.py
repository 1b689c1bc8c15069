"""vpatch bench on vLLM itself: what is accepted follows from how the models were made."""

from __future__ import annotations

import json

import pytest

from tests.commands.bench.browser import fixture_open_page
from tests.documents import shown
from tests.engine.conftest import vpatch
from vpatch.harness.predict import Counters, counters_of

RECIPE = """
vllm: 0.23.0
patches: [cpu-spec-decode-fp64-gumbel, cpu-spec-decode-expand-copy-back]
bench:
  models: {all-accepted: {synthetic: all}, first-accepted: {synthetic: first}}
  shapes: [{input: 24, output: 32}]
  concurrency: [1, 4]
  prompts: 4
  repeats: 1
  share-server: true
  warm-up: false
  flags: {enforce-eager: true, max-model-len: 512, max-num-seqs: 8}
  environment: {VLLM_CPU_KVCACHE_SPACE: "1", TORCHDYNAMO_DISABLE: "1"}
  timeouts: {start: 300, token: 60, cell: 600, stop: 60}
  cells:
    - {model: all-accepted, k: [0, 1, 2, 3]}
    - {model: first-accepted, k: [2]}
"""
# One request of 32 tokens: after its first one, a step makes k + 1 of them, or 2.
PREDICTED = {
    ("all-accepted", 0): Counters(),
    ("all-accepted", 1): Counters(16, 16, 16, (16,)),
    ("all-accepted", 2): Counters(11, 22, 22, (11, 11)),
    ("all-accepted", 3): Counters(8, 24, 24, (8, 8, 8)),
    ("first-accepted", 2): Counters(16, 32, 16, (16, 0)),
}

pytestmark = pytest.mark.usefixtures("cpu_engine")
open_page = fixture_open_page


@pytest.fixture(scope="module")
def folder(cpu_engine, tmp_path_factory):
    """The record of a run: five servers, each with two loads."""
    del cpu_engine  # it is there now
    home = tmp_path_factory.mktemp("bench")
    (home / "recipe.yaml").write_text(RECIPE)
    run = vpatch(
        *("bench", "--recipe", home / "recipe.yaml", "--engine", "cpu", "--trust"),
        *("--output-dir", home / "records", "--name", "one"),
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "10 of 10 runs measured" in run.stdout
    return home / "records" / "one"


def test_acceptance_is_what_construction_predicts(folder):
    """The server's counters, and the figures that vLLM's own `vllm bench serve` has of them."""
    record = json.loads((folder / "bench.json").read_text())
    seen = set()
    for point in record["points"]:
        requests = point["prompts"]
        assert requests == 4 * point["concurrency"]
        one = PREDICTED[point["model"], point["k"]]
        kind = "all" if point["model"] == "all-accepted" else "first"
        assert one == counters_of(kind, 17, 32, point["k"])
        found = point["measured"]["counters"]
        assert found == {
            "drafts": requests * one.drafts,
            "draft_tokens": requests * one.draft_tokens,
            "accepted": requests * one.accepted,
            "per_position": [requests * count for count in one.per_position],
        }
        raw = json.loads((folder / point["raw"]).read_text())
        if point["k"]:
            assert raw["spec_decode_num_drafts"] == found["drafts"]
            assert raw["spec_decode_acceptance_rate"] == 100 * one.rate
            assert raw["spec_decode_acceptance_length"] == one.length
            rates = [count / one.drafts for count in one.per_position]
            assert raw["spec_decode_per_position_acceptance_rates"] == rates
        assert point["measured"]["output_tokens"] == 32 * requests
        assert raw["input_lens"] == [24] * requests
        seen.add((point["model"], point["k"], point["concurrency"]))
    assert seen == {(model, k, c) for model, k in PREDICTED for c in (1, 4)}


def test_speeds_are_those_that_vllm_says(folder):
    for point in json.loads((folder / "bench.json").read_text())["points"]:
        raw = json.loads((folder / point["raw"]).read_text())
        run = point["measured"]
        assert run["output_tokens_per_second"] == raw["output_throughput"] > 10
        for name, found in run["latency_ms"].items():
            assert {which: found[which] for which in ("mean", "p50", "p95", "p99")} == {
                which: raw[f"{which}_{name}_ms"] for which in ("mean", "p50", "p95", "p99")
            }
            # What is drawn is computed here, from the same requests.
            assert found["quantiles"][50] == pytest.approx(found["p50"], rel=0.02, abs=1e-3), name
            assert found["quantiles"][99] == pytest.approx(found["p99"], rel=0.02, abs=1e-3), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(folder, open_page, scheme):
    with open_page(folder / "report.html", scheme) as opened:
        assert opened.complaints == []
        assert len(opened.requests) == 1
        plots = opened.plots()
        text = opened.page.inner_text("body")
    names = [plot["name"] for plot in plots]
    for model, k in (("all-accepted", True), ("first-accepted", False)):
        for what in ("Acceptance rate over k", "Acceptance by position", "Output tokens/s over"):
            assert any(what in name and model in name for name in names), what
        for latency in ("TTFT", "TPOT", "ITL", "E2EL"):
            found = [name for name in names if latency in name and model in name]
            assert len(found) == 2, (latency, found)
        # Of one k there is no speed-up.
        assert any("Speed-up over k" in name and model in name for name in names) == k
    for plot in plots:
        assert plot["drawn"] > 0, plot
        assert min(plot["width"], plot["height"]) > 100, plot
    for model in ("all-accepted", "first-accepted"):
        assert model in text
    assert "not judged" in text


def test_the_table_is_what_the_documentation_shows(folder):
    """But for speeds, and what is said of them after one repeat."""
    table = shown("bench").splitlines()
    theirs = [line.split("|") for line in table if line.startswith("| all-accepted")]
    lines = (folder / "report.md").read_text().splitlines()
    ours = [line.split("|") for line in lines if line.startswith("| all-accepted")]
    places = [[cell.strip() for cell in (*row[2:5], *row[7:])] for row in ours if len(row) == 11]
    assert len(places) == 8
    assert places == [[cell.strip() for cell in (*row[2:5], *row[7:])] for row in theirs]


def test_reports_for_others(folder):
    lines = (folder / "report.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| first-accepted") and " 0.500 " in line]
    assert len(rows) == 2
    assert all(" 2.00 " in row and " 1.000 0.000 " in row for row in rows)
    assert len((folder / "results.csv").read_text().splitlines()) == 11
