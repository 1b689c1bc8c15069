"""What is left of a job whose worker is gone: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

from tests.waiting import LIMIT
from vpatch.cluster.payload import guard

SLEEPS = [sys.executable, "-c", "import time; time.sleep(3600)"]


@contextmanager
def started(mark):
    environment = os.environ | {"VPATCH_JOB": mark}
    with subprocess.Popen(SLEEPS, env=environment, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_end_of_the_input_ends_the_job(tmp_path):
    work = tmp_path / "job"
    (work / "tmp").mkdir(parents=True)
    with started("one") as mine, started("two") as other:
        with subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, work, "one"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as first:
            # It left its parent: that one may be killed with its children.
            assert first.wait(LIMIT) == 0
            assert mine.poll() is None
            first.stdin.close()
            assert first.stdout.read() == b""
        assert mine.wait(LIMIT) == -9
        assert not work.exists()
        assert other.poll() is None
