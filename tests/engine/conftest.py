from __future__ import annotations

import subprocess
import sys

import pytest

from vpatch.workspace.context import Context, open_engine

RELEASE = "0.23.0"


def vpatch(*args, env=None, folder="/"):
    # In another folder, so that the library is the one beside the package and not a project's own.
    command = [sys.executable, "-m", "vpatch", *map(str, args)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)


@pytest.fixture(scope="session")
def cpu_engine():
    run = vpatch("engine", "--vllm", RELEASE)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def engine(cpu_engine):
    del cpu_engine  # it is there now
    with open_engine(Context(), "cpu", RELEASE) as found:
        yield found
