"""Changes beside the code that a patch reads, made by chance; benchmarks/RESULTS.md has figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[1] / "benchmarks" / "beside.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "answers"),
    [
        pytest.param(
            "--count 30 --release 0.23.0 --patch mtp-proj-prefix --patch cve-2026-54234",
            {"beside": 25, "vex": 8, "bump": 10, "harmless": 4},
            id="some",
        ),
        pytest.param(
            "--count 240",
            {"beside": 200, "vex": 100, "bump": 40, "harmless": 40},
            id="all",
            marks=pytest.mark.full,
        ),
    ],
)
def test_no_answer_about_a_tree_with_changes_beside_the_code_is_wrong(options, answers):
    command = [sys.executable, BESIDE, *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    told = re.findall(r"^(\d+) of (\d+) answers are wrong: (\w+)$", done.stdout, re.MULTILINE)
    assert {name for _, _, name in told} == answers.keys(), done.stdout + done.stderr
    for wrong, asked, name in told:
        assert int(asked) >= answers[name], name
        # A harmless change that is marked is a cost, and nothing false.
        assert wrong == "0" or (name == "harmless" and int(wrong) * 10 <= int(asked)), done.stdout
