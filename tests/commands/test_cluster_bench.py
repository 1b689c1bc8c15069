"""vpatch bench --cluster: what is compared runs on one node, with a vLLM of a few lines."""

from __future__ import annotations

import json
import re

import pytest

from tests.cluster.fixtures import fixture_cluster, fixture_clustered
from tests.commands.smoke.planned import PLAN
from vpatch.commands.bench.record import read_record, text_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]

__all__ = ["fixture_cluster", "fixture_clustered"]
BENCH = """
bench:
  models: {given: {checkpoint: MODEL}}
  shapes: [{input: 8, output: 7}]
  concurrency: [1, 2]
  prompts: 2
  repeats: 1
  warm-up: false
  share-server: true
  flags: {max-model-len: 64}
  timeouts: {start: 600, token: 600, cell: 600, stop: 600}
  cells:
    - {model: given, k: [0, 2]}
"""


def bench(clustered, *args, **options):
    return clustered.run(*args, do=("bench", "--recipe", "vllm-0.50"), **options)


def record_of(clustered, name):
    folder = clustered.project.folder / "bench" / name
    text = (folder / "bench.json").read_text()
    assert text_of(read_record(folder)) == text  # what is written is what the model says
    return json.loads(text)


def places(record):
    """What must not depend on where it was measured."""
    keys = ("side", "model", "k", "shape", "concurrency", "repeat", "prompts", "seed")
    return sorted(
        (*(point[key] for key in keys), json.dumps(point["measured"]["counters"]))
        for point in record["points"]
    )


def test_the_same_as_on_this_machine_and_not_again(clustered):
    clustered.plan(PLAN + BENCH)
    bench(clustered, "--name", "here", on="here")
    run = bench(clustered, "--name", "there")
    here, there = (record_of(clustered, name) for name in ("here", "there"))
    assert places(there) == places(here)
    assert there["models"] == here["models"]
    (side,), (side_here,) = there["sides"], here["sides"]
    assert (side["what"], side["digest"]) == (side_here["what"], side_here["digest"])
    assert side["engine"] == side_here["engine"]
    # All of it on one node: k = 2 is compared with k = 0.
    (node,) = side["nodes"]
    assert {point["node"] for point in there["points"]} == there["machines"].keys() == {node}
    assert "4 of 4 runs measured; record: bench/there" in run.out.splitlines()[-1]
    assert re.search(rf"^given on {re.escape(node)}$", run.err, re.MULTILINE)
    folder = clustered.project.folder / "bench" / "there"
    for point in there["points"]:
        assert "Namespace" in (folder / point["log"]).read_text()
        assert json.loads((folder / point["raw"]).read_text())["completed"] == point["prompts"]
    servers = [path.read_text() for path in (folder / "logs").glob("*-server.log")]
    assert len(servers) == 2
    assert all("strength 2\n" in log for log in servers)
    # Nobody listens at this address.
    run = bench(clustered, "--name", "kept", "--resume", on="127.0.0.1:1")
    assert "note: 1 cell of an earlier run: the evidence is kept and verifies\n" in run.err
    assert places(record_of(clustered, "kept")) == places(there)


def test_two_sides_that_are_lost_are_faults(clustered):
    """A node that hangs is tried elsewhere; what no node can measure is said."""
    fault = "  environment: {FAKE_FAULT: client hangs}\n"
    plan = BENCH.replace("cell: 600", "cell: 5").replace("[0, 2]", "[0]").replace("[1, 2]", "[1]")
    clustered.plan(PLAN + plan.replace("  flags:", fault + "  flags:"))
    args = ["bench", "--compare", "pristine:0.50.0,0.50.0", "--plan", "vllm-0.50"]
    run = clustered.run("--name", "one", "--attempts", "2", do=args, code=1)
    record = record_of(clustered, "one")
    assert [side["name"] for side in record["sides"]] == ["A", "B"]
    assert [side["what"] for side in record["sides"]] == [
        "vLLM 0.50.0 with no patches",
        "vLLM 0.50.0 with 1 patch",
    ]
    assert {point["fault"]["kind"] for point in record["points"]} == {"takes too long"}
    assert len(record["points"]) == 2
    tried = re.findall(r"^(A|B) given on \S+-(\w{6})(?:, attempt \d)?$", run.err, re.MULTILINE)
    for side in "AB":
        nodes = [node for name, node in tried if name == side]
        assert len(set(nodes)) == 2, run.err
    logs = {path.name for path in (clustered.project.folder / "bench/one/logs").iterdir()}
    assert {"A-given.attempt-1.log", "B-given.attempt-1.log"} <= logs


MATRIX = """
matrix:
  patches:
    pristine: []
    all: [strength]
  hardware:
    left: {labels: {slot: a}}
    right: {labels: {slot: b}}
"""


def test_the_points_of_a_matrix_run_where_their_hardware_is(clustered):
    clustered.plan(PLAN.replace("k: [0, 2]}", "k: [0], modes: [server]}") + BENCH + MATRIX)
    bench(clustered, "--name", "one")
    record = record_of(clustered, "one")
    by_hardware = {}
    for side in record["sides"]:
        by_hardware.setdefault(side["point"]["hardware"], set()).update(side["nodes"])
    assert sorted(map(len, by_hardware.values())) == [1, 1]
    assert by_hardware["left"] != by_hardware["right"]
    assert len(record["points"]) == record["planned"] == 16
    # The same matrix as a smoke run.
    run = clustered.run("--name", "one", do=("smoke", "--recipe", "vllm-0.50"))
    assert run.out.splitlines()[-1] == "4 of 4 cells pass; evidence: evidence/one"
    folder = clustered.project.folder / "evidence" / "one"
    found = json.loads((folder / "results.json").read_text())
    for cell in found["cells"]:
        (one,) = cell["rounds"]
        assert {one["node"]} == by_hardware[cell["point"].split()[-1]]
        with_patches = cell["point"].startswith("all")
        assert ("strength 2\n" in (folder / one["log"]).read_text()) == with_patches
    assert "one matches" in clustered.project.run("evidence", "verify", "one").out
    kept = ("--name", "two", "--resume")
    run = clustered.run(*kept, do=("smoke", "--recipe", "vllm-0.50"), on="127.0.0.1:1")
    assert "note: 4 cells of an earlier run" in run.err
