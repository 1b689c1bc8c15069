"""vpatch smoke --on with --image: each cell is a container on its node."""

from __future__ import annotations

import json
import os

import pytest

from tests.cli.test_cluster import BEGUN, finished, judged, lines_of
from tests.cluster.local_cluster import local_cluster
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(name="cluster")
def fixture_cluster(tmp_path, docker):
    """Nodes a and b have the engine of the tests; c has none."""
    nowhere = f"unix://{tmp_path}/no.sock"
    with local_cluster(tmp_path, "ab", env={"DOCKER_HOST": docker.where}) as started:
        started.name_of_c = started.add("c", env={"DOCKER_HOST": nowhere})
        yield started


def smoke(project, *args, **options):
    return project.run("smoke", "--image", project.tag, *args, in_process=False, **options)


def record_of(project, name):
    return json.loads((project.folder / "evidence" / name / "results.json").read_text())


def test_a_run_in_an_image_on_nodes(patched, docker, cluster):
    before = docker.containers()
    smoke(patched, "--name", "here")
    run = smoke(patched, "--name", "there", "--on", cluster.address)
    assert run.out.splitlines()[-1] == "4 of 4 cells pass; evidence: evidence/there"
    here, there = (record_of(patched, name) for name in ("here", "there"))
    assert judged(there) == judged(here)
    assert there["image"] == here["image"]
    assert there["digest"] == here["digest"]
    assert there["engine"] == here["engine"]
    nodes = {one["node"] for cell in there["cells"] for one in cell["rounds"]}
    assert nodes
    # It has no Docker Engine.
    assert not any(node.endswith(cluster.name_of_c) for node in nodes)
    assert f"-{cluster.name_of_c} takes no cells: " in run.err
    assert "no Docker Engine answers" in run.err
    assert patched.run("evidence", "verify", "there", in_process=False).out.startswith(
        "there matches (passed, "
    )
    assert docker.containers() == before
    again = smoke(patched, "--name", "again", "--on", "127.0.0.1:1", "--resume")
    assert "note: 4 cells of an earlier run" in again.err


def test_a_lost_node_leaves_no_container_that_runs(patched, docker, cluster):
    text = patched.recipe.read_text()
    slow = "    environment: {FAKE_FAULT: hang while loading}\n    max-tokens"
    patched.recipe.write_text(text.replace("    max-tokens", slow))
    before = docker.containers()
    on = ("--on", cluster.address, "--attempts", "1", "--name", "one")
    with patched.start("smoke", "--image", patched.tag, *on) as process:
        for line in lines_of(process):
            if BEGUN.match(line):
                break
        until(docker.commands, process=process)
        for slot in "ab":
            cluster.kill(slot)
        until(lambda: not docker.commands())
        out, err = finished(process)
    assert process.returncode == 1, out + err
    assert "1 attempt" in out
    patched.recipe.write_text(text)
    # What ended without its job is removed by the next job of the node.
    cluster.add("a", env={"DOCKER_HOST": os.environ["DOCKER_HOST"]})
    run = smoke(patched, "--name", "two", "--on", cluster.address)
    assert "4 of 4 cells pass" in run.out
    assert docker.containers() == before
