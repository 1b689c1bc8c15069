"""What is left of a job whose worker is gone: nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

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


CLEANS = """
import sys
from pathlib import Path
assert Path(sys.argv[2]).is_dir(), "the folder of the job is still there"
Path(sys.argv[1]).write_text("cleaned up")
"""


@pytest.mark.parametrize("content", [None, "half of it", "whole"])
def test_what_a_killed_job_left_to_do_is_done(tmp_path, content):
    work, done = tmp_path / "job", tmp_path / "done"
    code = work / "sent" / "code"
    code.mkdir(parents=True)
    (code / "cleans.py").write_text(CLEANS)
    command = json.dumps(["cleans", str(done), str(work)])
    # Where the worker was started, others may have put modules of the same name.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cleans.py").write_text("")
    if content is not None:
        text = command if content == "whole" else command[:-5]
        (work / "if-killed.json").write_text(text)
    subprocess.run(
        [sys.executable, "-I", "-S", guard.__file__, work, "three"],
        cwd=elsewhere,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=LIMIT,
        check=True,
    )
    assert not work.exists()
    assert done.exists() == (content == "whole")
