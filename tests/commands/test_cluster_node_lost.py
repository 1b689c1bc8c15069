"""A node of a Ray cluster is lost under a cell: a short test, with a cluster of its own.

tests/commands/test_cluster.py and tests/commands/test_cluster_kills.py have more of it.
"""

from __future__ import annotations

import pytest

from tests.cluster.fixtures import fixture_clustered
from tests.cluster.local_cluster import local_cluster
from tests.commands.smoke.planned import PLAN
from tests.commands.test_cluster import BEGUN, finished, judged, lines_of, record_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]

__all__ = ["fixture_clustered"]
# Slow, so that the cell has not ended when its node does.
FOUR = PLAN.replace(
    "    max-tokens", "    environment: {FAKE_FAULT: slow}\n    max-tokens"
).replace("k: [0, 2]}", "k: [0, 1, 2, 3], modes: [server]}")


@pytest.fixture(name="cluster")
def fixture_cluster(tmp_path_factory):
    with local_cluster(tmp_path_factory.mktemp("cluster"), "ab") as started:
        yield started


def test_its_cell_runs_again_and_none_twice(clustered):
    clustered.plan(FOUR)
    with clustered.start("--name", "one") as process:
        err = []
        for line in lines_of(process):
            err.append(line)
            if BEGUN.match(line):
                break
        clustered.cluster.kill("a")
        out, rest = finished(process)
    err = "\n".join([*err, rest])
    assert process.returncode == 0, err
    assert "4 of 4 cells pass" in out
    record = record_of(clustered, "one")
    rounds = [one for cell in record["cells"] for one in cell["rounds"]]
    assert len({one["log"] for one in rounds}) == len(rounds) == 4
    # Nobody listens at this address: nothing runs again.
    again = clustered.run("--name", "two", "--resume", on="127.0.0.1:1")
    assert "note: 4 cells of an earlier run" in again.err
    assert judged(record_of(clustered, "two")) == judged(record)
