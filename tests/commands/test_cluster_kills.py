"""Runs of twelve cells, and in each a node that is killed while it runs.

VPATCH_TEST_KILLS says how many runs. Which node dies, and after how many begun cells, is by chance
from a seed. With -s, it says what happened in each run.
"""

from __future__ import annotations

import os
import random
import sys
import time

import pytest

from tests.cluster.fixtures import fixture_cluster, fixture_clustered
from tests.commands.test_cluster import BEGUN, TWELVE, finished, judged, lines_of, record_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

__all__ = ["fixture_cluster", "fixture_clustered"]
RUNS = int(os.environ.get("VPATCH_TEST_KILLS", "2"))
SLOTS = "ab"


def test_a_node_dies_in_each_run(clustered):
    chance = random.Random(23)
    # Slow, so that a cell has not ended when its node does.
    slow = "    environment: {FAKE_FAULT: slow}\n    max-tokens"
    clustered.plan(TWELVE.replace("    max-tokens", slow))
    for number in range(RUNS):
        slot, moment = chance.choice(SLOTS), chance.randrange(1, 13)
        name = f"run-{number}"
        with clustered.start("--name", name, "--evidence-dir", f"evidence/{name}") as process:
            err, begun = [], 0
            for line in lines_of(process):
                err.append(line)
                begun += BEGUN.match(line) is not None
                if begun == moment:
                    break
            clustered.cluster.kill(slot)
            out, rest = finished(process)
        err = "\n".join([*err, rest])
        said = f"run {number}: node {slot} after {moment} cells\n{out}\n{err}"
        assert process.returncode == 0, said
        assert "12 of 12 cells pass" in out, said
        record = record_of(clustered, f"{name}/{name}")
        rounds = [one for cell in record["cells"] for one in cell["rounds"]]
        assert len({one["log"] for one in rounds}) == len(rounds) == 12, said
        lost = sum(len(one["lost"]) for one in rounds)
        # Nobody listens at this address: nothing runs again.
        kept = ("--name", "again", "--evidence-dir", f"evidence/{name}", "--resume")
        started = time.monotonic()
        again = clustered.run(*kept, on="127.0.0.1:1")
        seconds = time.monotonic() - started
        # Seen with -s.
        said_of_run = f"{name}: {slot} after {moment}, {lost} lost, again in {seconds:.1f} s"
        sys.stdout.write(f"{said_of_run}\n")
        assert "note: 12 cells of an earlier run" in again.err, said
        assert judged(record_of(clustered, f"{name}/again")) == judged(record)
        clustered.cluster.add(slot)
