"""What the README shows is what the terminal prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.builders import large_v4
from vpatch.declare.edits import VERBS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILE = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


PROPOSED = "cpu-spec-decode-fp64-gumbel"


def shown(name: str) -> str:
    found = re.search(
        rf"<!-- shown: {name} -->\n```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL
    )
    assert found
    return found[1]


def test_the_first_command_prints_what_is_shown(tmp_path):
    command = re.search(r"&& \.venv/bin/(vpatch apply .*)$", README, re.MULTILINE)[1]
    assert run(command, tmp_path) == shown("apply")


def test_a_patch_that_upstream_has_is_what_is_shown(tmp_path):
    command = re.search(r"`(vpatch upstream-pr \S+ --on .*?)`", README)[1]
    assert run(f"vpatch status --vllm 0.33.0 --patch {PROPOSED} > /dev/null", tmp_path) == ""
    assert run(f"{command} || test $? -eq 1", tmp_path) == shown("upstream-pr")


def test_a_diagnosis_is_what_is_shown(tmp_path):
    log = ROOT / "tests" / "resources" / "vllm-0.23.0-cpu-mtp.log"
    shutil.copy(log, tmp_path / "engine.log")
    assert run("vpatch diagnose engine.log || test $? -eq 1", tmp_path) == shown("diagnose")


def test_a_checkpoint_is_looked_at_as_is_shown(tmp_path):
    large_v4(tmp_path / "DeepSeek-V4-W4A16")
    command = "vpatch checkpoint inspect DeepSeek-V4-W4A16 || test $? -eq 1"
    assert run(command, tmp_path) == shown("checkpoint")


def test_the_guide_ends_in_a_working_patch(tmp_path):
    files = FILE.findall(README)
    assert len(files) == 4
    for path, text in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    commands = 0
    for block in CONSOLE.findall(README):
        for command, output in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block, re.MULTILINE):
            assert run(command, tmp_path) == output
            commands += 1
    assert commands == 5


@pytest.mark.parametrize("verb", VERBS)
def test_every_edit_is_listed(verb):
    assert f"`{verb}`" in README


def test_ci_finds_the_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    found = re.search(r"<!-- tests -->\n```bash\n(.*)\n```\n<!-- /tests -->", README)
    assert found
    assert found[1].endswith(".venv/bin/pytest -n 2")
    assert "<!-- tests -->" in script
