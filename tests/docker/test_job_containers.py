"""The containers of a job of a cluster, with a real Docker Engine."""

from __future__ import annotations

import subprocess
import sys
import uuid
from contextlib import ExitStack, closing

from tests.waiting import LIMIT
from vpatch.docker.engine import Docker


def test_the_containers_of_a_killed_job_are_removed_and_no_others(docker, monkeypatch):
    """One that runs, one that ended, and one that never started."""
    job = uuid.uuid4().hex
    monkeypatch.setenv("VPATCH_JOB", job)
    before = docker.containers()
    with closing(Docker()) as engine, ExitStack() as stack:

        def created(*command):
            return stack.enter_context(engine.container(docker.base, command))

        created("sleep", "3600").start()
        created("true").start()
        created("true")
        mine = docker.containers() - before
        assert len(mine) == 3
        monkeypatch.setenv("VPATCH_JOB", f"{job}-other")
        created("sleep", "3600")
        monkeypatch.delenv("VPATCH_JOB")
        created("true")
        others = docker.containers() - before - mine
        assert len(others) == 2
        subprocess.run(
            [sys.executable, "-m", "vpatch.docker.job_containers", job], timeout=LIMIT, check=True
        )
        assert docker.containers() - before == others
