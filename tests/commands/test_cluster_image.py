"""vpatch smoke and bench --cluster in images: each job runs in containers on its node."""

from __future__ import annotations

import json
import re
import signal
import uuid
from contextlib import ExitStack

import pytest

from tests.cluster.local_cluster import local_cluster
from tests.commands.bench.test_bench import PLAN as BENCH
from tests.commands.test_cluster import BEGUN, finished, judged, lines_of
from tests.commands.test_cluster_bench import places
from tests.docker_engine import PACKAGES
from tests.waiting import until
from vpatch.runs.node_image import ImageName, image_on_node

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]


@pytest.fixture(name="cluster", scope="module")
def fixture_cluster(tmp_path_factory, docker_engine):
    """Nodes a and b have the engine of the tests; c has none."""
    folder = tmp_path_factory.mktemp("cluster")
    nowhere = f"unix://{folder}/no.sock"
    with local_cluster(folder, "ab", env={"DOCKER_HOST": docker_engine.where}) as started:
        started.name_of_c = started.add("c", env={"DOCKER_HOST": nowhere})
        yield started


@pytest.fixture(name="benched")
def fixture_benched(patched):
    """The project with a plan for both commands."""
    plan = BENCH.replace("MODEL", str(patched.folder / "model")).replace("[0, 2]", "[2]")
    patched.recipe.write_text(patched.recipe.read_text() + plan)
    return patched


def smoke(project, *args, **options):
    return project.run("smoke", "--image", project.tag, *args, in_process=False, **options)


def record_of(project, name, kind="evidence/{}/results.json"):
    return json.loads((project.folder / kind.format(name)).read_text())


def slow(project, fault, **changes):
    """Let each cell hang, in its own way; `changes` are of the plan."""
    text = project.recipe.read_text()
    text = text.replace(
        "    max-tokens", f"    environment: {{FAKE_FAULT: {fault}}}\n    max-tokens"
    )
    for before, after in changes.items():
        text = text.replace(f"{before}: 600", f"{before}: {after}")
    project.recipe.write_text(text.replace("k: [0, 2]}", "k: [0], modes: [server]}"))


def test_a_run_in_an_image_on_nodes(patched, docker, cluster):
    before = docker.containers()
    smoke(patched, "--name", "here")
    run = smoke(patched, "--name", "there", "--cluster", cluster.address)
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
    again = smoke(patched, "--name", "again", "--cluster", "127.0.0.1:1", "--resume")
    assert "note: 4 cells of an earlier run" in again.err


def test_a_benchmark_in_two_images_on_nodes(benched, docker, cluster):
    """What is compared, its record, and its prompts from a file are as on this machine."""
    before = docker.containers()
    other = f"{benched.tag}-other"
    docker.build(other, f"FROM {benched.tag}\nRUN touch {PACKAGES}/other", {})
    pair = ("bench", "--compare", f"image:{benched.tag},image:{other}")
    try:
        benched.run(*pair, "--name", "here", in_process=False)
        on = ("--name", "there", "--cluster", cluster.address)
        run = benched.run(*pair, *on, in_process=False)
        kept = ("--name", "kept", "--cluster", "127.0.0.1:1", "--resume")
        again = benched.run(*pair, *kept, in_process=False)
    finally:
        docker.forget(other)
    here, there, kept = (record_of(benched, name, "bench/{}/bench.json") for name in NAMES)
    assert "4 of 4 runs measured; record: bench/there" in run.out
    assert places(there) == places(here) == places(kept)
    assert "note: 2 cells of an earlier run" in again.err
    for mine, theirs in zip(there["sides"], here["sides"], strict=True):
        (node,) = mine.pop("nodes")
        assert mine == theirs
        assert not node.endswith(cluster.name_of_c)
    assert there["sides"][0]["image"]["id"] != there["sides"][1]["image"]["id"]
    assert docker.containers() == before


NAMES = ("here", "there", "kept")


def test_a_container_sees_the_dataset_of_its_job(benched, cluster, docker):
    """The small client opens the file that it is given."""
    (benched.folder / "mixed.jsonl").write_text("{}\n")
    text = benched.recipe.read_text().replace(
        "[{input: 8, output: 7}]", "[{dataset: custom, path: mixed.jsonl, output: 7}]"
    )
    benched.recipe.write_text(text)
    # vLLM reads prompts with it.
    reader = f"{benched.tag}-reader"
    docker.build(reader, f"FROM {benched.tag}\nRUN touch {PACKAGES}/pandas.py", {})
    try:
        args = ("--name", "one", "--cluster", cluster.address)
        run = benched.run("bench", "--image", reader, *args, in_process=False)
    finally:
        docker.forget(reader)
    assert "2 of 2 runs measured" in run.out
    log = next((benched.folder / "bench" / "one" / "logs").glob("*-c-1.log"))
    assert re.search(r"dataset_path='/\S+/sent/datasets/0/mixed.jsonl'", log.read_text())


def test_a_job_that_ends_has_cleaned_up(patched, docker, tmp_path, monkeypatch):
    job = uuid.uuid4().hex
    monkeypatch.setenv("VPATCH_JOB", job)
    before = docker.containers()
    with ExitStack() as stack:
        # Nobody has it under that name: it was loaded, and not pulled.
        name = ImageName(f"nowhere.invalid/image@sha256:{'0' * 64}", docker.id(patched.tag))
        found, _, gpus = image_on_node(name, tmp_path, stack)
        assert (found.version, found.kind, gpus) == ("0.50.0", "cpu", False)
        text = (tmp_path / "if-killed.json").read_text()
        assert json.loads(text) == ["vpatch.docker.job_containers", job]
        assert docker.containers() == before
    assert not (tmp_path / "if-killed.json").exists()


def test_a_lost_node_leaves_no_container(patched, docker, cluster):
    slow(patched, "hang while loading")
    patched.recipe.write_text(
        patched.recipe.read_text().replace("modes: [", "needs: {labels: {slot: victim}}, modes: [")
    )
    victim = cluster.add("victim", env={"DOCKER_HOST": docker.where})
    before = docker.containers()
    on = ("--cluster", cluster.address, "--attempts", "1", "--name", "one")
    with patched.start("smoke", "--image", patched.tag, *on) as process:
        for line in lines_of(process):
            if BEGUN.match(line):
                break
        until(docker.commands, process=process)
        cluster.kill("victim")
        until(lambda: docker.containers() == before)
        out, err = finished(process)
    assert process.returncode == 1, out + err
    assert re.search(rf"1 attempt, the last one on \S+-{victim}: ", out)


def test_ctrl_c_leaves_no_container(patched, docker, cluster):
    slow(patched, "hang while loading")
    before = docker.containers()
    on = ("--cluster", cluster.address, "--name", "one")
    with patched.start("smoke", "--image", patched.tag, *on) as process:
        for line in lines_of(process):
            if BEGUN.match(line):
                break
        until(docker.commands, process=process)
        process.send_signal(signal.SIGINT)
        _, err = finished(process)
    assert process.returncode == 130, err
    # Not waited for: it is so when the command ends.
    assert docker.containers() == before


def test_a_cell_that_hangs_is_tried_elsewhere_and_leaves_no_container(patched, docker, cluster):
    slow(patched, "hang", token=1)
    before = docker.containers()
    args = ("--name", "one", "--cluster", cluster.address, "--attempts", "2")
    run = smoke(patched, *args, code=1)
    nodes = [node for _, _, node in BEGUN.findall(run.err)]
    assert len(set(nodes)) == 2, run.err
    assert "runs: hangs: no token in time" in run.out
    assert docker.containers() == before
