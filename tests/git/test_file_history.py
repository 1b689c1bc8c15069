"""What the commits of a clone make of a file."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.helpers import fails
from tests.projects import git
from vpatch.git.file_history import ClonedHistory
from vpatch.git.found import opened_source

FILE = "vllm/a.py"


@pytest.fixture
def clone(tmp_path):
    """A file that is added before v1, changed twice and removed before v2, beside another one."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")

    def commit(subject, **files):
        for name, text in files.items():
            path = tmp_path / "vllm" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", subject)

    commit("Add a", a="one\n", b="one\n")
    git(tmp_path, "tag", "v1")
    commit("Change a", a="two\n")
    commit("Change b", b="two\n")
    git(tmp_path, "switch", "--quiet", "-c", "side")
    commit("Change a: again\n\nA reason.", a="three\0\n")
    git(tmp_path, "switch", "--quiet", "main")
    commit("Change b again", b="three\n")
    git(tmp_path, "merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    commit("Remove a", a=None)
    git(tmp_path, "tag", "v2")
    return tmp_path


@contextmanager
def history(clone, old="v1", new="v2"):
    with opened_source(clone) as repo:
        yield ClonedHistory(repo, "the clone", old, new)


def test_the_commits_of_a_file(clone):
    with history(clone) as found:
        changes = found.changes(FILE)
    assert [(one.subject, one.before, one.after) for one in changes] == [
        ("Change a", b"one\n", b"two\n"),
        ("Change a: again", b"two\n", b"three\0\n"),
        ("Remove a", b"three\0\n", None),
    ]
    listed = git(clone, "log", "--format=%H", "--", FILE).split()
    assert [one.commit for one in changes] == listed[-2::-1]
    assert [one.when for one in changes] == sorted(one.when for one in changes)


def test_a_file_that_nobody_changed(clone):
    with history(clone) as found:
        assert found.changes("vllm/c.py") == []


def test_the_first_commit_has_nothing_before_it(clone):
    git(clone, "switch", "--quiet", "--orphan", "other")
    (clone / "vllm").mkdir(exist_ok=True)
    (clone / FILE).write_text("other\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "Begin anew")
    with history(clone, new="other") as found:
        (change,) = found.changes(FILE)
    assert (change.before, change.after) == (None, b"other\n")


@pytest.mark.parametrize(("old", "new"), [("v0", "v2"), ("v1", "v3"), ("--all", "v2")])
def test_a_clone_without_a_release(clone, old, new):
    with history(clone, old, new) as found, fails("git.no-such-ref", "the clone has no"):
        found.refuse_missing()


def test_a_clone_with_both(clone):
    with history(clone) as found:
        found.refuse_missing()


def test_a_clone_without_the_contents_of_files(clone, tmp_path_factory):
    git(clone, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path_factory.mktemp("partial")
    options = ("--quiet", "--no-checkout", "--filter=blob:none")
    git(clone, "clone", *options, clone.as_uri(), str(partial))
    with history(partial) as found:
        found.refuse_missing()
        with fails("git.partial-clone", "lacks contents of vllm/a.py"):
            found.changes(FILE)
