"""Clusters with something wrong, and each kind of address, with real nodes of Ray."""

from __future__ import annotations

import os
import random
import re
import shutil

import pytest

from tests.cluster.fixtures import fixture_clustered
from tests.cluster.local_cluster import local_cluster
from tests.commands.smoke.planned import PLAN
from tests.commands.test_cluster import BEGUN, record_of
from vpatch.cluster.connection import connected
from vpatch.cluster.errors import ClusterError
from vpatch.cluster.parcel import Parcel

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]

__all__ = ["fixture_clustered"]
ONE = PLAN.replace("k: [0, 2]}", "k: [0], modes: [offline]}")
PASSES = "1 of 1 cell passes; evidence: evidence/one"
# Python imports it at its start.
AN_HOUR_AHEAD = "import time\n_now = time.time\ntime.time = lambda: _now() + 3600\n"


@pytest.fixture(name="port", scope="module")
def fixture_port():
    return random.randrange(15000, 32000)


@pytest.fixture(name="cluster", scope="module")
def fixture_cluster(tmp_path_factory, port):
    """A head with a server for clients, and no node yet."""
    folder = tmp_path_factory.mktemp("cluster")
    with local_cluster(folder, ray_client_server_port=port) as started:
        yield started


def test_an_object_store_that_is_full(tmp_path):
    """Larger than the store, and a disk that counts as full: there is no room to spill to."""
    full = {"local_fs_capacity_threshold": 0.0001}
    parcel = Parcel({"a": os.urandom(120_000_000)})
    with (
        local_cluster(tmp_path, _system_config=full) as cluster,
        connected(cluster.address) as opened,
        pytest.raises(ClusterError) as error,
    ):
        opened.send(parcel)
    assert error.value.code == "cluster.store-full"
    assert "the object store has no room for 12" in error.value.what


def test_no_cluster_at_the_address(clustered):
    run = clustered.run("--name", "one", on="127.0.0.1:1", code=4)
    assert "127.0.0.1:1: no Ray cluster answers: [Errno 111] Connection refused" in run.errors
    assert not (clustered.project.folder / "evidence" / "one").exists()


def test_each_kind_of_address(clustered, port):
    clustered.plan(ONE)
    clustered.cluster.add("a")
    for number, address in enumerate((f"ray://127.0.0.1:{port}", "auto", "local")):
        if address == "auto":
            clustered.project.env["RAY_ADDRESS"] = clustered.cluster.address
        run = clustered.run("--name", f"run-{number}", on=address)
        clustered.project.env.pop("RAY_ADDRESS", None)
        assert "1 of 1 cell pass" in run.out, address
    clustered.cluster.kill("a")


def test_a_node_without_the_checkpoint_takes_no_cells(clustered, tmp_path):
    clustered.plan(PLAN.replace("MODEL", "~/model"))
    (tmp_path / "with").mkdir()
    shutil.move(clustered.project.folder / "model", tmp_path / "with" / "model")
    nodes = {
        name: clustered.cluster.add(name, env={"HOME": str(tmp_path / name)})
        for name in ("with", "without")
    }
    run = clustered.run("--name", "one")
    assert f"-{nodes['without']} takes no cells of given: " in run.err
    assert {node for _, _, node in BEGUN.findall(run.err)} == {nodes["with"]}
    for name in nodes:
        clustered.cluster.kill(name)


def test_a_clock_that_is_an_hour_ahead(clustered, tmp_path):
    clustered.plan(ONE)
    (tmp_path / "sitecustomize.py").write_text(AN_HOUR_AHEAD)
    node = clustered.cluster.add("late", env={"PYTHONPATH": str(tmp_path)})
    run = clustered.run("--name", "one")
    # What the node says is on its way for some seconds.
    said = rf"-{node} is 3[56]\d\d s ahead; times in its logs are so, too"
    assert re.search(said, run.err), run.err
    assert record_of(clustered, "one")["result"] == "passed"
    clustered.cluster.kill("late")
