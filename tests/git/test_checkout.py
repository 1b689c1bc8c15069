from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.projects import git as user_git
from vpatch.git import checkout, command
from vpatch.git.checkout import NewCommit
from vpatch.git.files import EXECUTABLE, REGULAR, SYMLINK, SourceFile

FILES = [
    SourceFile(".gitattributes", REGULAR, b"* text=auto eol=crlf ident\n"),
    SourceFile(".gitignore", REGULAR, b"*.log\n"),
    SourceFile("a.py", REGULAR, b"# $Id$\r\nx = 1\n"),
    SourceFile('odd "\u00e4"', REGULAR, b"1\n"),
    SourceFile("link", SYMLINK, b"a.py"),
    SourceFile("run.sh", EXECUTABLE, b"#!/bin/sh\n"),
]
COMMITS = [
    NewCommit("First\n\nVpatch-Id: one\n", {"a.py": b"# $Id$\r\nx = 2\n"}),
    NewCommit("Second \u00fc\n", {"run.sh": b"#!/bin/bash\n", 'odd "\u00e4"': b"2", "n/w": b""}),
]
# Fixed here: they must never change from one machine or version of vpatch to another.
BASE = "8a15c3441a19d909685cee4115129df8a6ad1a93"
IDS = ["0427a9f202526a4931d760e90f6572617f304227", "b2335866f119c22d1902e1b23a6b5346b738b6fa"]
OWN = {"refs/heads/base": BASE, "refs/heads/vpatch": IDS[-1]}

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def base(tmp_path):
    command.create_base_repository(tmp_path / "base.git", FILES, "vllm")
    return tmp_path / "base.git"


@pytest.fixture
def repo(tmp_path, base):
    folder = tmp_path / "repo"
    checkout.create_checkout(folder, base, BASE, ["vpatch.lock"])
    checkout.add_commits(folder, BASE, COMMITS)
    checkout.check_out(folder, "vpatch")
    return folder


@pytest.fixture
def hostile(isolated, monkeypatch):
    """A user whose every setting would change what git makes."""
    (isolated / "home" / ".gitconfig").write_text(
        f"""[core]
autocrlf = true
hooksPath = {isolated}/hooks
fileMode = false
excludesFile = {isolated}/everything
[commit]
gpgSign = true
[gpg]
program = /bin/false
[init]
defaultBranch = other
templateDir = {isolated}/templates
[diff]
noprefix = true
external = /bin/false
algorithm = patience
context = 9
[color]
ui = always
"""
    )
    (isolated / "everything").write_text("*\n")
    for folder in ("hooks", "templates/hooks"):
        (isolated / folder).mkdir(parents=True)
        for name in ("post-checkout", "reference-transaction", "post-index-change"):
            (isolated / folder / name).write_text(f"#!/bin/sh\ntouch {isolated}/hooked\nexit 1\n")
            (isolated / folder / name).chmod(0o755)
    for name, value in {
        "GIT_DIR": f"{isolated}/elsewhere",
        "GIT_INDEX_FILE": f"{isolated}/elsewhere-index",
        "GIT_AUTHOR_NAME": "Somebody",
        "GIT_COMMITTER_DATE": "2001-01-01T00:00:00",
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "TZ": "Asia/Tokyo",
        "LANG": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    old = os.umask(0o077)
    yield
    os.umask(old)


def content(repo):
    listed = command.run(repo, "ls-files", "-z").split(b"\0")[:-1]
    paths = [os.fsdecode(path) for path in listed]
    return {
        path: (repo / path).readlink() if (repo / path).is_symlink() else (repo / path).read_bytes()
        for path in paths
    }


def test_commits_have_fixed_ids(tmp_path, base):
    checkout.create_checkout(tmp_path / "r", base, BASE, [])
    assert checkout.add_commits(tmp_path / "r", BASE, COMMITS) == IDS
    command.run(tmp_path / "r", "fsck", "--strict")


def test_whatever_a_path_has_it_is_one_path(tmp_path, base):
    paths = ["a\nM 120000 b", 'q"u\\o', "t\tab\r\x01\x7f", "\u00e4\udcff", "-x", " b "]
    checkout.create_checkout(tmp_path / "r", base, BASE, [])
    files = {path: path.encode("utf-8", "surrogateescape") for path in paths}
    (commit,) = checkout.add_commits(tmp_path / "r", BASE, [checkout.NewCommit("m", files)])
    found = {one.path: one.data for one in command.commit_files(tmp_path / "r", commit)}
    assert {path: found.get(path) for path in paths} == files
    before = {one.path for one in command.commit_files(tmp_path / "r", BASE)}
    assert found.keys() - before == set(paths)


@pytest.mark.usefixtures("hostile")
def test_commits_and_files_under_hostile_settings(tmp_path, base):
    checkout.create_checkout(tmp_path / "r", base, BASE, [])
    assert checkout.add_commits(tmp_path / "r", BASE, COMMITS) == IDS
    checkout.check_out(tmp_path / "r", "vpatch")
    assert content(tmp_path / "r")["a.py"] == b"# $Id$\r\nx = 2\n"
    assert checkout.current_branch(tmp_path / "r") == "vpatch"
    assert checkout.refs(tmp_path / "r") == OWN
    assert checkout.changed_files(tmp_path / "r") == []
    assert not (tmp_path / "hooked").exists()
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "r" / ".git" / "hooks").exists()


def test_files_are_written_as_they_are_stored(repo):
    assert content(repo) == {
        ".gitattributes": FILES[0].data,
        ".gitignore": FILES[1].data,
        "a.py": b"# $Id$\r\nx = 2\n",
        'odd "\u00e4"': b"2",
        "link": Path("a.py"),
        "n/w": b"",
        "run.sh": b"#!/bin/bash\n",
    }
    assert os.access(repo / "run.sh", os.X_OK)
    assert not os.access(repo / "a.py", os.X_OK)


@pytest.mark.parametrize("commits", [COMMITS, []])
@pytest.mark.parametrize("ahead", [True, False])
def test_a_change_right_after_is_seen(tmp_path, base, commits, ahead):
    """Of the same size, and within the second: git must know that it has to read the file."""
    repo = tmp_path / "r"
    checkout.create_checkout(repo, base, BASE, [])
    checkout.add_commits(repo, BASE, commits)
    for branch in ("base", "vpatch") if ahead else ("vpatch",):
        checkout.check_out(repo, branch)
    assert checkout.changed_files(repo) == []
    assert (repo / ".git" / "index").stat().st_mtime_ns <= time.time_ns()
    (repo / ".gitignore").write_bytes(FILES[1].data.swapcase())
    assert checkout.changed_files(repo) == [".gitignore"]


def test_no_commits_are_the_base(tmp_path, base):
    checkout.create_checkout(tmp_path / "r", base, BASE, [])
    assert checkout.add_commits(tmp_path / "r", BASE, []) == []
    checkout.check_out(tmp_path / "r", "vpatch")
    assert checkout.refs(tmp_path / "r") == OWN | {"refs/heads/vpatch": BASE}


def test_pack_is_linked(repo, base):
    linked = {p.stat().st_ino for p in (base / "objects/pack").iterdir()}
    assert linked <= {p.stat().st_ino for p in (repo / ".git/objects/pack").iterdir()}


def test_pack_is_copied_where_it_cannot_be_linked(tmp_path, base, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    checkout.create_checkout(tmp_path / "r", base, BASE, [])
    assert checkout.add_commits(tmp_path / "r", BASE, COMMITS) == IDS


def test_what_is_left_in_the_repository(repo):
    assert not (repo / ".git" / "vpatch-marks").exists()
    assert checkout.refs(repo) == OWN
    assert user_git(repo, "status", "--porcelain") == ""


def test_changed_files(repo):
    (repo / "a.py").write_text("mine\n")
    (repo / "run.sh").unlink()
    (repo / "new").mkdir()
    (repo / "new" / "file").write_text("")
    (repo / "x.log").write_text("")
    (repo / "vpatch.lock").write_text("")
    (repo / "staged").write_text("")
    user_git(repo, "add", "staged")
    assert checkout.changed_files(repo) == ["a.py", "new/file", "run.sh", "staged"]


def test_a_change_of_the_mode_alone(repo):
    (repo / "run.sh").chmod(0o644)
    assert checkout.changed_files(repo) == ["run.sh"]


def test_changed_files_writes_nothing(repo):
    index = (repo / ".git" / "index").stat().st_mtime_ns
    os.utime(repo / "a.py", (1, 1))
    checkout.changed_files(repo)
    assert (repo / ".git" / "index").stat().st_mtime_ns == index


def test_ignored_files(repo):
    (repo / "sub").mkdir()
    (repo / "sub" / "x.log").write_text("")
    (repo / "new").write_text("")
    (repo / "vpatch.lock").write_text("")
    assert checkout.ignored_files(repo) == ["sub/x.log", "vpatch.lock"]


def test_head_detached(repo):
    user_git(repo, "checkout", "-q", BASE)
    assert checkout.current_branch(repo) is None


def test_head_on_a_branch_without_commits(repo):
    user_git(repo, "checkout", "-q", "--orphan", "mine")
    assert checkout.current_branch(repo) == "mine"


def test_refs(repo):
    user_git(repo, "branch", "mine")
    user_git(repo, "tag", "v1")
    (repo / "a.py").write_text("mine\n")
    user_git(repo, "stash")
    new = checkout.refs(repo).keys() - OWN.keys()
    assert new == {"refs/heads/mine", "refs/stash", "refs/tags/v1"}


def test_a_message_in_another_encoding(repo, tmp_path):
    head = user_git(repo, "rev-parse", "HEAD").strip()
    tree = user_git(repo, "rev-parse", "HEAD^{tree}").strip()
    # git itself would write it as UTF-8.
    who = b"x <x@localhost> 0 +0000"
    lines = [f"tree {tree}\nparent {head}".encode(), b"author " + who, b"committer " + who]
    (tmp_path / "commit").write_bytes(b"\n".join(lines) + b"\n\ncaf\xe9\n")
    made = user_git(repo, "hash-object", "-w", "-t", "commit", str(tmp_path / "commit")).strip()
    assert checkout.messages(repo, head, made) == ["caf\ufffd"]


@pytest.mark.usefixtures("hostile")
def test_diff_has_fixed_bytes(repo):
    assert checkout.diff(repo, BASE, IDS[0]) == (
        b"diff --git a/a.py b/a.py\n"
        b"index 088b1f556ad448dd80136f6d014a9db7eb226667.."
        b"c2f2855982cb02f404411bb52194a9192981b97a 100644\n"
        b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n # $Id$\r\n-x = 1\n+x = 2\n"
    )
