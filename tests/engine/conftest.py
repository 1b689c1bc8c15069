from __future__ import annotations

import os
import subprocess
import sys

import pytest

from vpatch.app.context import Context, open_engine
from vpatch.engine.environment import managed_folders
from vpatch.source.cache import default_cache_folder

RELEASE = "0.23.0"


def vpatch(*args, env=None):
    # In another folder, so that the library is the one beside the package and not a project's own.
    command = [sys.executable, "-m", "vpatch", *map(str, args)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, env=env)


@pytest.fixture(scope="session")
def cpu_engine():
    made = [path.name for path in managed_folders(default_cache_folder())]
    there = any(name.startswith(f"engine-cpu-{RELEASE}-") for name in made)
    if not there and os.environ.get("VPATCH_TEST_ENGINE") != "1":
        pytest.skip("no cpu engine in the cache: vpatch engine --vllm 0.23 makes it")
    run = vpatch("engine", "--vllm", RELEASE)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def engine(cpu_engine):
    del cpu_engine  # it is there now
    with open_engine(Context(), "cpu", RELEASE) as found:
        yield found
