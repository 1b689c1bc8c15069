"""Cells in a container, without a Docker Engine: what is here is how its log is kept."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.commands.smoke.builders import cell_of
from tests.helpers import fails
from vpatch.commands.smoke.run import PhaseContext, run_phase
from vpatch.docker.errors import DockerError
from vpatch.harness.container import ContainerSandbox
from vpatch.harness.models import PreparedModel
from vpatch.progress import Silent

SECONDS = 60.0


class Container:
    """One that says `said`, and runs until it is ended."""

    def __init__(self, said):
        self.said, self.ended = said, threading.Event()

    def start(self):
        pass

    def output(self):
        yield b"first\n"
        if isinstance(self.said, Exception):
            raise self.said
        yield self.said

    def state(self):
        return 137 if self.ended.is_set() else None

    def wait(self, seconds):
        return self.state() if self.ended.wait(min(seconds, SECONDS)) else None

    def memory(self):
        return 0

    def end(self):
        self.ended.set()


def site_of(container, **keys):
    @contextmanager
    def made(*_):
        yield container

    return ContainerSandbox(SimpleNamespace(container=made), "image", {}, {}, **keys)


FAULTS = {
    "the disk is full": (b"more\n", Path("/dev/full"), "No space left on device"),
    "the stream breaks": (DockerError("Connection aborted"), None, "Connection aborted"),
    "anything else": (ValueError("chunked"), None, "ValueError: chunked"),
}


@pytest.mark.parametrize(("said", "log", "why"), FAULTS.values(), ids=FAULTS)
def test_a_log_that_cannot_be_copied_is_noticed_while_it_runs(tmp_path, said, log, why):
    container = Container(said)
    log = log or tmp_path / "log"
    with site_of(container).started(["python3"], workdir=tmp_path, log=log, extra_env={}) as child:
        child.copy.join(SECONDS)
        assert not child.copy.is_alive()
        with fails("engine.log-lost") as caught:
            child.poll()
        assert why in caught.value.what
        assert caught.value.where == str(log)
    assert container.ended.is_set()


@pytest.mark.parametrize("mode", ["offline", "server"])
def test_it_is_a_finding_of_its_cell_and_others_go_on(tmp_path, mode):
    sandbox = site_of(Container(ConnectionResetError(104, "reset by peer")))
    for name in ("logs", "room"):
        (tmp_path / name).mkdir()
    checkpoints = {"m": PreparedModel("m", tmp_path, "", "")}
    place = PhaseContext("after", sandbox, checkpoints, tmp_path / "logs", tmp_path / "room")
    cells = [cell_of(k=k, mode=mode) for k in (0, 1)]
    told = []
    results = run_phase(place, cells, Silent(), told.append)
    assert told == results
    for result in results:
        assert result.verdict == "fail"
        (check,) = [check for check in result.checks if check.name == "runs"]
        assert check.reason.startswith("lost its log: the log of a container cannot be copied: ")


@pytest.mark.parametrize("job", [None, "attempt"])
def test_a_container_of_a_cluster_has_the_gpus_that_ray_chose(monkeypatch, tmp_path, job):
    """The job's guard finds its processes by the name of the job."""
    configs = []

    @contextmanager
    def made(_image, _command, config):
        configs.append(config)
        yield Container(b"")

    for name, value in {"VPATCH_JOB": job, "CUDA_VISIBLE_DEVICES": "1"}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    sandbox = ContainerSandbox(SimpleNamespace(container=made), "image", {}, {})
    with sandbox.started(["true"], workdir=tmp_path, log=tmp_path / "log", extra_env={}):
        pass
    (config,) = configs
    given = {"VPATCH_JOB", "CUDA_VISIBLE_DEVICES"} & config.environment.keys()
    assert given == ({"VPATCH_JOB", "CUDA_VISIBLE_DEVICES"} if job else set())
