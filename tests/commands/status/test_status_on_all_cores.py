from __future__ import annotations

import os
import signal
import tempfile

import pytest

from tests.projects import VERSION
from vpatch.workspace import plan_pool as deciding
from vpatch.workspace import plan_workers as workers

ASKED = ("status", "--vllm", f"{VERSION},0.51.0", "--patch", "name-proj")
CODEMOD = """
import time
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Name,)

    def edit(self, original, updated):
        return updated
"""


def end(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def cores(monkeypatch):
    """The number of cores that status may use."""

    def use(number):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(number)))

    return use


@pytest.fixture
def deciders(monkeypatch, tmp_path):
    """The processes that decided, one for each tree."""
    original = deciding.Jobs.decide
    log = tmp_path / "deciders"
    log.touch()

    def decided(self, number):
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return original(self, number)

    monkeypatch.setattr(deciding.Jobs, "decide", decided)
    return lambda: [int(line) for line in log.read_text().split()]


def test_each_worker_decides_on_a_tree(project, cores, deciders):
    cores(1)
    alone = project.run(*ASKED)
    assert set(deciders()) == {os.getpid()}
    project.run("cache", "clear", "plans", "contents")
    cores(2)
    assert project.run(*ASKED).out == alone.out
    assert len(deciders()) == 4
    assert os.getpid() not in deciders()[2:]
    # What the workers decided is remembered.
    assert project.run(*ASKED).out == alone.out
    assert len(deciders()) == 4


def test_what_a_worker_cannot_decide_the_command_decides(project, cores, deciders):
    expected = project.run(*ASKED).out
    project.run("cache", "clear", "plans", "contents")
    damaged = min(project.cache.glob("trees/*/files/vllm/models/llama.py"))
    damaged.write_bytes(bytes(len(damaged.read_bytes())))
    cores(2)
    run = project.run(*ASKED)
    assert run.out == expected
    assert "is damaged" in run.err
    assert deciders()[-1] == os.getpid()


def test_a_worker_that_the_system_ends(project, cores, deciders, monkeypatch):
    expected = project.run(*ASKED).out
    project.run("cache", "clear", "plans", "contents")
    cores(2)
    monkeypatch.setattr(workers, "_rows", end)
    assert project.run(*ASKED).out == expected
    assert deciders().count(os.getpid()) >= 2


def test_a_worker_removes_its_own_copies_of_code(project, cores, monkeypatch, tmp_path):
    folder = project.patch("slow", "- {codemod: codemod.py, contains: [launch]}")
    (folder / "codemod.py").write_text(CODEMOD)
    cores(2)
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    project.run(*ASKED[:3], "--patch", "slow", "--trust", code=None)
    assert list(place.iterdir()) == []


def test_neighbours_are_decided_by_one_worker():
    assert list(workers._in_runs(range(7), 2)) == [0, 4, 1, 5, 2, 6, 3]
    assert list(workers._in_runs([3, 5, 8], 3)) == [3, 5, 8]
