"""A benchmark as jobs for a cluster: what their results are kept under."""

from __future__ import annotations

import pytest

from vpatch.commands.bench.jobs import BenchJobs, runs_of
from vpatch.commands.bench.sides import PlannedSide
from vpatch.declare.bench import Bench
from vpatch.declare.smoke import Needs
from vpatch.runs.targets import PlannedTrees

PLAN = Bench.model_validate_json("""{
    "models": {"small": {"synthetic": "all"}},
    "shapes": [{"input": 8, "output": 7}],
    "cells": [{"model": "small", "k": [0, 2]}]
}""")


def keys_of(folder, *ids):
    images = [{"name": "team/vllm:1", "id": one, "digests": []} for one in ids]
    trees = [PlannedTrees([], [], "0.50.0", image, {}, "cpu") for image in images]
    sides = [PlannedSide(one, "an image", [], Needs()) for one in trees]
    jobs = BenchJobs(PLAN, sides, {}, folder, lambda *_: None)
    assert [task.wanted.image.id for task in jobs.tasks] == list(ids)
    return [task.key(task.wanted.image.name, {}) for task in jobs.tasks]


def test_equal_sides_are_kept_each_by_itself(tmp_path):
    """Their difference is the noise: with one result for both it would be none."""
    first, second = keys_of(tmp_path, "sha256:a", "sha256:a")
    assert first != second
    # Another side before it changes nothing.
    assert keys_of(tmp_path, "sha256:b", "sha256:a")[1] == first


@pytest.mark.parametrize("path", ["points/x.json", "logs/a/b.log", "raw/../x"])
def test_a_file_that_no_job_leaves(tmp_path, path):
    image = {"name": "team/vllm:1", "id": "sha256:a", "digests": []}
    side = PlannedSide(PlannedTrees([], [], "0.50.0", image, {}, "cpu"), "", [], Needs())
    (task,) = BenchJobs(PLAN, [side], {}, tmp_path, lambda *_: None).tasks
    with pytest.raises(ValueError, match="is not a log or a raw result"):
        list(runs_of(task, "a", {path: b""}, tmp_path))
