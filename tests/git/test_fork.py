"""git for a branch in a fork, where the command line cannot come in between."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.commands.upstream.proposals import git
from tests.helpers import fails
from vpatch.errors import ExitCode
from vpatch.git import fork as git_fork
from vpatch.git.fork import Person

WHO = Person("Pat", "pat@example.com")
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def fork(tmp_path):
    """A bare repository with one commit on main."""
    work, bare = tmp_path / "work", tmp_path / "fork.git"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "run.sh").write_text("true\n")
    (work / "run.sh").chmod(0o755)
    git(work, "add", "run.sh")
    git(work, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "one")
    git(tmp_path, "clone", "-q", "--bare", str(work), str(bare))
    return bare


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "rooms" / "room"
    git_fork.open_room(folder)
    git_fork.open_room(folder)  # which is there already
    return folder


def commit_on(workdir, parent, text):
    return git_fork.add_commit(workdir, parent, {"run.sh": text}, "msg\n", WHO, NOW)


def test_a_commit_keeps_modes_and_says_who(workdir, fork):
    base = git_fork.fetch_tip(workdir, fork.as_uri(), "main", depth=1)
    made = git_fork.add_commit(
        workdir, base, {"run.sh": b"false\n", 'od"d.py': b""}, "m\n", WHO, NOW
    )
    listed = git(workdir, "ls-tree", made).splitlines()
    assert [line.split()[0] for line in listed] == ["100644", "100755"]
    assert git_fork.parent_of(workdir, made) == base
    assert git_fork.subject_of(workdir, made) == "Pat: m"
    assert git(workdir, "show", "--no-patch", "--format=%ad", "--date=unix", made) == "1767312000"


def test_nobody_who_was_quicker_is_written_over(workdir, fork):
    url = fork.as_uri()
    base = git_fork.fetch_tip(workdir, url, "main", depth=1)
    first, second = (commit_on(workdir, base, text) for text in (b"1\n", b"2\n"))
    git_fork.push(workdir, url, first, "topic", None)
    for expected in (None, base):
        with fails("git.branch-moved"):
            git_fork.push(workdir, url, second, "topic", expected)
    assert git_fork.branch_tip(url, "topic") == first
    git_fork.push(workdir, url, second, "topic", first)
    assert git_fork.branch_tip(url, "topic") == second


def test_a_push_that_the_remote_refuses(workdir, fork):
    hook = fork / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    base = git_fork.fetch_tip(workdir, fork.as_uri(), "main", depth=1)
    made = commit_on(workdir, base, b"1\n")
    with fails("git.refused-by-remote", "does not allow a push") as caught:
        git_fork.push(workdir, fork.as_uri(), made, "topic", None)
    assert caught.value.exit_code == ExitCode.FINDINGS


def test_what_was_noted(workdir, fork):
    base = git_fork.fetch_tip(workdir, fork.as_uri(), "main", depth=1)
    assert git_fork.noted(workdir, "me/vllm/topic") is None
    git_fork.note(workdir, "me/vllm/topic", base)
    assert git_fork.noted(workdir, "me/vllm/topic") == base


def test_a_remote_without_the_branch_or_without_anything(tmp_path, fork):
    assert git_fork.branch_tip(fork.as_uri(), "topic") is None
    with fails("git.no-such-repository") as caught:
        git_fork.branch_tip((tmp_path / "gone.git").as_uri(), "main")
    assert "--fork-url" in caught.value.hint
