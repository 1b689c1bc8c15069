"""A benchmark as jobs for a cluster: what their results are kept under, and what they read."""

from __future__ import annotations

import json
import math

import pytest

from vpatch.commands.bench.cluster import BenchOnCluster, ClusterBench
from vpatch.commands.bench.node import PointAnswer
from vpatch.commands.bench.sides import PlannedSide
from vpatch.declare.bench import Bench
from vpatch.declare.smoke import Needs
from vpatch.harness.measured import Fault, StartHangs
from vpatch.node import JOB
from vpatch.runs.node_job import text_of
from vpatch.runs.targets import PlannedTrees

PLAN = Bench.model_validate_json("""{
    "models": {"small": {"synthetic": "all"}},
    "shapes": [{"input": 8, "output": 7}],
    "concurrency": [1], "repeats": 1, "flags": {"max-model-len": 64},
    "cells": [{"model": "small", "k": [0, 2]}]
}""")
LATENCY = {"mean": 1.0, "p50": 1.0, "p95": 1.0, "p99": 1.0, "quantiles": [1.0] * 101}
MEASURED = {
    "seconds": math.inf,
    "requests": 1,
    "input_tokens": 2,
    "output_tokens": 3,
    "output_tokens_per_second": 0.0,
    "latency_ms": dict.fromkeys(("ttft", "tpot", "itl", "e2el"), LATENCY),
    "counters": {"drafts": 1, "draft_tokens": 2, "accepted": 1, "per_position": [1, 0]},
    "cached_tokens": 0,
}
FAULT = {"kind": "crashed", "what": "it ended with 1", "cause": None, "ending": ["last line"]}


def bench_of(folder, *ids):
    images = [{"name": "team/vllm:1", "id": one, "digests": []} for one in ids]
    trees = [PlannedTrees([], [], "0.50.0", image, {}, "cpu") for image in images]
    sides = [PlannedSide(one, "an image", [], Needs()) for one in trees]
    (folder / "logs").mkdir(parents=True)
    told = []
    request = ClusterBench("name", {}, PLAN, sides, folder)
    return BenchOnCluster(request, folder, lambda side, point: told.append((side, point))), told


def keys_of(folder, *ids):
    bench, _ = bench_of(folder, *ids)
    assert [task.wanted.image.id for task in bench.tasks] == list(ids)
    return [task.key(task.wanted.image.name, {}) for task in bench.tasks]


def test_equal_sides_are_kept_each_by_itself(tmp_path):
    """Their difference is the noise: with one result for both it would be none."""
    first, second = keys_of(tmp_path / "a", "sha256:a", "sha256:a")
    assert first != second
    # Another side before it changes nothing.
    assert keys_of(tmp_path / "b", "sha256:b", "sha256:a")[1] == first


def test_a_job_comes_back_as_it_was(tmp_path):
    bench, _ = bench_of(tmp_path, "sha256:a")
    (task,) = bench.tasks
    assert JOB.validate_json(text_of(task.job)) == task.job


@pytest.mark.parametrize("kind", [Fault, StartHangs])
def test_a_fault_comes_back_as_it_was(kind):
    fault = kind("hangs", "it did not start within 9 s", None, ("last line",))
    answer = PointAnswer(log=None, raw=None, measured=None, fault=fault)
    assert PointAnswer.model_validate_json(text_of(answer)).result == fault


@pytest.mark.parametrize("path", ["points/x.json", "logs/a/b.log", "raw/../x"])
def test_a_file_that_no_job_leaves(tmp_path, path):
    bench, _ = bench_of(tmp_path, "sha256:a")
    with pytest.raises(ValueError, match="is not a log or a raw result"):
        bench.tasks[0].settle("a", {path: b""})


def test_points_of_an_earlier_vpatch(tmp_path):
    """A result that was kept is read by its own keys, and what it measured is not judged."""
    place = {"side": 0, "model": "small", "k": 0, "log": "logs/one.log", "raw": None}
    answer = {
        "machine": {
            "system": "Linux",
            "processor": "p",
            "cores": 2,
            "memory": 16.0,
            "gpus": [],
            "problem": None,
        },
        "inherited": {},
        "hangs": None,
        "engine": {"kind": "cpu", "version": "0.50.0"},
        "models": {"small": {"model": "synthetic: all", "digest": "sha256:1"}},
        "points": [
            place | {"measured": MEASURED, "fault": None},
            place | {"measured": None, "fault": FAULT},
        ],
    }
    bench, told = bench_of(tmp_path, "sha256:a")
    text = json.dumps(answer).encode()
    bench.tasks[0].settle("node", {"result.json": text, "logs/one.log": b"loaded"})
    (_, first), (_, second) = told
    assert first.result.latencies["ttft"].quantiles == (1.0,) * 101
    assert (first.result.seconds, first.result.counters.per_position) == (math.inf, (1, 0))
    assert second.result == Fault("crashed", "it ended with 1", None, ("last line",))
    assert (first.node, first.log.read_text()) == ("node", "loaded")
    assert bench.nodes == [{"node": "cpu"}]
