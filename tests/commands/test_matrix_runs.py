"""A recipe with a matrix, run on this machine with a vLLM of a few lines."""

from __future__ import annotations

import json
import sys

import pytest

from tests.commands.smoke.planned import PLAN
from vpatch.commands.bench.record import read_record, text_of
from vpatch.evidence.documents import document_of
from vpatch.evidence.store import read_evidence

pytestmark = pytest.mark.slow

MATRIX = """
matrix:
  patches:
    pristine: []
    all: [strength]
  hardware:
    cpu: {engine: cpu}
    hopper: {gpus: 1, capability: "9.0"}
"""
ONE_CELL = PLAN.replace("k: [0, 2]}", "k: [0], modes: [server]}")
BENCH = """
bench:
  models: {given: {checkpoint: MODEL}}
  shapes: [{input: 8, output: 7}]
  concurrency: [1]
  prompts: 2
  repeats: 1
  warm-up: false
  flags: {max-model-len: 64}
  timeouts: {start: 600, token: 600, cell: 600, stop: 600}
  cells:
    - {model: given, k: [0, 2]}
"""


def write(project, text):
    project.recipe.write_text(text.replace("MODEL", str(project.folder / "model")))


def run(project, command, *args, **options):
    named = ("--recipe", "vllm-0.50", "--engine", sys.executable, "--name", "one")
    return project.run(command, *named, *args, **options)


def test_smoke_is_one_record_of_all_points(smoked):
    write(smoked, ONE_CELL + MATRIX)
    found = run(smoked, "smoke")
    assert "note: pristine hopper is left out: the recipe needs a GPU" in found.err
    for point in ("pristine cpu", "all cpu"):
        assert f"{point}: given k=0 server" in found.out
    assert found.out.splitlines()[-1] == "2 of 2 cells pass; evidence: evidence/one"
    folder = smoked.folder / "evidence" / "one"
    record = json.loads((folder / "results.json").read_text())
    assert document_of(read_evidence(folder).record) == record  # as its model says
    assert [cell["point"] for cell in record["cells"]] == ["pristine cpu", "all cpu"]
    strengths = []
    for cell in record["cells"]:
        (one,) = cell["rounds"]
        strengths.append("strength 2" in (folder / one["log"]).read_text())
    assert strengths == [False, True]
    assert "| all cpu | given | 0 | server | pass |" in (folder / "report.md").read_text()
    # Each point is evidence as well.
    for name in ("one", "one/points/pristine-cpu", "one/points/all-cpu"):
        assert "matches (passed, sha256:" in smoked.run("evidence", "verify", name).out
    write(smoked, ONE_CELL + MATRIX.replace("pristine: []", "without: []"))
    verified = smoked.run("evidence", "verify", "one", code=1)
    assert "the recipe has no point pristine cpu any more" in verified.out
    write(smoked, ONE_CELL + MATRIX)
    log = folder / record["cells"][0]["rounds"][0]["log"]
    log.write_text("all is well")
    verified = smoked.run("evidence", "verify", "one", code=1)
    assert "changed since it was written: points/pristine-cpu/logs/" in verified.out


def test_bench_measures_each_point_as_a_side(smoked, monkeypatch):
    # They take longer to draw than the loads to run.
    monkeypatch.setattr("vpatch.commands.bench.report.page.plots_of", lambda _: [])
    write(smoked, PLAN + BENCH + MATRIX)
    run(smoked, "bench")
    folder = smoked.folder / "bench" / "one"
    text = (folder / "bench.json").read_text()
    assert text_of(read_record(folder)) == text  # as its model says
    record = json.loads(text)
    assert [side["point"] for side in record["sides"]] == [
        {"patches": "pristine", "hardware": "cpu"},
        {"patches": "all", "hardware": "cpu"},
    ]
    assert [side["what"] for side in record["sides"]] == [
        "vLLM 0.50.0 with no patches, on cpu",
        "vLLM 0.50.0 with 1 patch, on cpu",
    ]
    assert {(point["side"], point["k"]) for point in record["points"]} == {
        *((side, k) for side in (0, 1) for k in (0, 2))
    }
    page = (folder / "report.html").read_text()
    assert '<h2 id="matrix">Matrix</h2>' in page
    compared = smoked.run("bench", "compare", "bench/one", "--sides", "B,A")
    assert "How many times as much as B, and whether" in compared.out
    refused = smoked.run("bench", "compare", "bench/one", "--sides", "A,C", code=2)
    assert refused.codes == ("cli.bad-value",)
    two = smoked.run("bench", "compare", "bench/one", "bench/one", "--sides", "A,B", code=2)
    assert two.codes == ("cli.unused-option",)


def test_more_points_than_letters(smoked):
    sets = "".join(f"    set-{number}: []\n" for number in range(27))
    write(smoked, PLAN + BENCH + f"matrix:\n  patches:\n{sets}")
    found = run(smoked, "bench", code=2)
    assert found.codes == ("bench.too-many-sides",)
