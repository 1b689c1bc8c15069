"""prism, which holds requests and answers against the published description."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest

from tests.fake_github.packages import DESCRIPTION, PRISM, installed
from tests.waiting import LIMIT


def listening(process, log):
    """The port that prism says it listens on."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"listening on http://127\.0\.0\.1:([0-9]+)", log.read_text())
        if found:
            return int(found[1])
        time.sleep(0.05)
    pytest.fail(f"prism does not listen:\n{log.read_text()[-2000:]}")


@contextmanager
def prism(upstream, log):
    workdir = installed()
    # It ends with this process, however that ends.
    command = ["setpriv", "--pdeathsig", "KILL", workdir / PRISM, "proxy", workdir / DESCRIPTION]
    command += [f"http://127.0.0.1:{upstream}", "--port", "0", "--errors", "--cors=false"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield listening(process, log)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
