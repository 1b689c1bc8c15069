"""`python -m tests.fake_github`, by which docs/how-to/upstream.md rehearses --submit."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.fake_github.asking import FORK, UPSTREAM
from tests.fake_github.packages import installed

ROOT = Path(__file__).parents[2]


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fake_github", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.github
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_shows_what_was_sent(tmp_path, ending):
    installed()
    for name in ("vllm.git", "fork.git"):
        (tmp_path / name).mkdir()
    places = ("--upstream", tmp_path / "vllm.git", "--fork", tmp_path / "fork.git")
    with start(*places) as server:
        line = server.stdout.readline()
        found = re.fullmatch(
            r"export GITHUB_API_URL=(http://127\.0\.0\.1:\d+) GH_TOKEN=(\w+)\n", line
        )
        assert found, line + server.stderr.read()
        headers = {"Authorization": f"token {found[2]}"}
        repository = f"{found[1]}/repos/{UPSTREAM}"
        fork = requests.get(f"{found[1]}/repos/{FORK}", headers=headers, timeout=60).json()
        assert fork["parent"]["full_name"] == UPSTREAM
        # A thread that a patch of the library names is there as it is declared.
        named = requests.get(f"{repository}/pulls/46069", headers=headers, timeout=60).json()
        assert named["merged"] is True
        assert fork["clone_url"] == (tmp_path / "fork.git").as_uri()
        pull = {"title": "A title", "head": "octocat:topic", "base": "main", "body": "A body"}
        sent = requests.post(f"{repository}/pulls", json=pull, headers=headers, timeout=60)
        assert sent.status_code == 201
        assert (
            requests.get(repository, headers={"Authorization": "token x"}, timeout=60).status_code
            == 401
        )
        server.send_signal(ending)
        out, err = server.communicate(timeout=60)
    assert (server.returncode, err) == (0, "")
    assert out == f"\n#{sent.json()['number']} A title\n{FORK}:topic -> main\n\nA body"


def test_a_folder_that_is_not_there(tmp_path):
    with start("--upstream", tmp_path, "--fork", tmp_path / "none") as server:
        _, err = server.communicate(timeout=60)
    assert server.returncode == 2
    assert f"there is no folder {tmp_path / 'none'}" in err
