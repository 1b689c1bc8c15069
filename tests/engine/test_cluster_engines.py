"""Cells with a real vLLM on the nodes of a Ray cluster, and a matrix of three releases."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster.local_cluster import local_cluster
from tests.commands.bench.browser import fixture_open_page
from tests.engine.conftest import vpatch
from vpatch.commands.bench.record import read_record
from vpatch.harness.predict import Counters

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]
open_page = fixture_open_page

RELEASES = ["0.21.0", "0.23.0", "0.25.0"]
MATRIX = f"""
vllm: 0.23.0
patches: [cpu-spec-decode-fp64-gumbel, cpu-spec-decode-expand-copy-back]
matrix: {{vllm: [{", ".join(RELEASES)}]}}
bench:
  models: {{all-accepted: {{synthetic: all}}}}
  shapes: [{{input: 24, output: 32}}]
  concurrency: [1]
  prompts: 4
  repeats: 1
  share-server: true
  warm-up: false
  flags: {{enforce-eager: true, max-model-len: 512, max-num-seqs: 8}}
  environment: {{VLLM_CPU_KVCACHE_SPACE: "1", TORCHDYNAMO_DISABLE: "1"}}
  timeouts: {{start: 900, token: 300, cell: 900, stop: 60}}
  cells:
    - {{model: all-accepted, k: [0, 2]}}
"""
# Of 4 requests of 32 tokens: after its first one, a step makes k + 1 of them.
PREDICTED = {0: Counters(), 2: Counters(44, 88, 88, (44, 44))}


@pytest.fixture(name="started")
def fixture_started(tmp_path):
    def started(slots):
        return local_cluster(tmp_path, slots, env={"HOME": os.environ["HOME"]})

    return started


def judged(folder):
    """Checks and counters of all cells, which do not depend on where they ran."""
    record = json.loads((folder / "results.json").read_text())
    return [
        (
            cell["cell"],
            # Speeds are compared only on one kind of hardware, and memory is what it is.
            {c["name"]: c["verdict"] for c in cell["checks"]},
            [one["counters"] for one in cell["rounds"]],
        )
        for cell in record["cells"]
    ]


@pytest.mark.usefixtures("cpu_engine")
def test_the_recipe_gives_the_same_on_a_head_and_three_nodes(started, tmp_path):
    """Done on each node that fits: three have a CPU, and the labels a, b and c."""
    command = ["smoke", "--recipe", "vllm-0.23", "--engine", "cpu", "--evidence-dir", tmp_path]
    here = vpatch(*command, "--name", "here")
    assert here.returncode == 0, here.stdout + here.stderr
    with started("abc") as cluster:
        there = vpatch(*command, "--name", "there", "--cluster", cluster.address)
        assert there.returncode == 0, there.stdout + there.stderr
    assert judged(tmp_path / "there") == judged(tmp_path / "here")
    record = json.loads((tmp_path / "there" / "results.json").read_text())
    nodes = {one["node"] for cell in record["cells"] for one in cell["rounds"]}
    assert len(nodes) == 3
    assert nodes <= record["machines"].keys()


def test_a_matrix_of_three_releases_is_one_record_and_one_page(started, tmp_path, open_page):
    (tmp_path / "three.yaml").write_text(MATRIX)
    for release in RELEASES:
        made = vpatch("engine", "--vllm", release)
        assert made.returncode == 0, made.stderr
    with started("ab") as cluster:
        run = vpatch(
            *("bench", "--recipe", tmp_path / "three.yaml", "--engine", "cpu", "--trust"),
            *("--cluster", cluster.address, "--output-dir", tmp_path, "--name", "one"),
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "6 of 6 runs measured" in run.stdout
    record = read_record(tmp_path / "one")
    assert [side.engine.vllm for side in record.sides] == RELEASES
    assert len(record.machines) == 2
    for point in record.points:
        assert point.measured.counters.counts == PREDICTED[point.k]
    with open_page((tmp_path / "one" / "report.html").read_text()) as opened:
        assert opened.complaints == []
        table = opened.page.locator("section[aria-labelledby=matrix] table").inner_text()
    rows = [line.split("\t") for line in table.splitlines() if line.startswith("all-accepted")]
    assert [(row[1], row[3]) for row in rows] == [(k, v) for k in "02" for v in RELEASES]
