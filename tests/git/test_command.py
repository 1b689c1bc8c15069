from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import fails
from vpatch.checkout.transaction import writing
from vpatch.git import command, fork, remote
from vpatch.git.files import EXECUTABLE, REGULAR, SYMLINK, SourceFile

FILES = [
    SourceFile(".gitattributes", REGULAR, b"* text=auto eol=crlf ident filter=upper\n"),
    SourceFile("crlf.py", REGULAR, b"a\r\nb\n"),
    SourceFile("id.py", REGULAR, b"$Id$\n"),
    SourceFile('odd "name" \\ here', REGULAR, b""),
    SourceFile("link", SYMLINK, b"crlf.py"),
    SourceFile("run.sh", EXECUTABLE, b"#!/bin/sh"),
    SourceFile("\u00fc/\u00e4.txt", REGULAR, b"\xff\x00"),
]
# Fixed here: the id must never change from one machine or version of vpatch to another.
BASE = "8a5cb7a86b7a2dbeec18b0dd6373601b06c57ce5"


@pytest.fixture(autouse=True)
def _own_home(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def hostile(monkeypatch, tmp_path):
    hooks = tmp_path / "templates" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("post-checkout", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"""[user]
name = Somebody
email = s@example
[core]
autocrlf = true
hooksPath = {hooks}
attributesFile = {tmp_path}/attributes
excludesFile = {tmp_path}/ignore
[commit]
gpgSign = true
[gpg]
program = /bin/false
[init]
templateDir = {tmp_path}/templates
defaultBranch = other
[i18n]
commitEncoding = latin1
[safe]
bareRepository = explicit
"""
    )
    (tmp_path / "attributes").write_text("* text eol=crlf\n")
    (tmp_path / "ignore").write_text("*.py\n")
    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "ignore").write_text("*.py\n")
    for name, value in {
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_INDEX_FILE": str(tmp_path / "elsewhere-index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "elsewhere-objects"),
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Else",
        "TZ": "Asia/Tokyo",
    }.items():
        monkeypatch.setenv(name, value)
    old = os.umask(0o077)
    yield tmp_path
    os.umask(old)


def blobs(repo, commit):
    return {file.path: (file.mode, file.data) for file in command.commit_files(repo, commit)}


def test_base_repository(tmp_path):
    commit = command.create_base_repository(tmp_path / "b.git", FILES, "vllm 0.23.0")
    assert commit == BASE
    assert blobs(tmp_path / "b.git", commit) == {f.path: (f.mode, f.data) for f in FILES}
    assert len(list((tmp_path / "b.git/objects/pack").glob("*.pack"))) == 1
    assert not (tmp_path / "b.git" / "hooks").exists()
    command.run(tmp_path / "b.git", "fsck", "--strict")


def test_a_user_configuration_that_git_cannot_read(tmp_path):
    (tmp_path / ".gitconfig").write_text("[core\n")
    assert command.create_base_repository(tmp_path / "b.git", FILES, "vllm 0.23.0") == BASE


def test_base_commit_under_hostile_settings(hostile):
    commit = command.create_base_repository(hostile / "b.git", FILES, "vllm 0.23.0")
    assert commit == BASE
    assert blobs(hostile / "b.git", commit) == {f.path: (f.mode, f.data) for f in FILES}
    ref = remote.ResolvedRef(commit, commit)
    remote.fetch_commit(str(hostile / "b.git"), ref, hostile / "c.git")
    assert blobs(hostile / "c.git", commit) == blobs(hostile / "b.git", commit)
    assert not (hostile / "hooked").exists()
    assert not (hostile / "elsewhere").exists()


def test_worktree_files_under_hostile_settings(hostile):
    root = hostile / "work"
    command.run(None, "init", "-q", str(root))
    (root / "a.py").write_text("")
    (root / ".gitignore").write_text("*.log\n")
    (root / "b.log").write_text("")
    assert remote.worktree_files(root) == [".gitignore", "a.py"]


def test_a_failure_carries_command_status_and_stderr(tmp_path):
    with fails("git.failed") as caught:
        command.run(tmp_path, "rev-parse", "https://bob:hunter2@h/x")
    error = caught.value
    assert error.status == 128
    assert error.command == f"git -C {tmp_path} rev-parse https://h/x"
    assert error.stderr
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(("url", "ref"), [("--upload-pack=touch x", "v1"), ("h:x", "--all")])
def test_options_in_disguise_are_refused(tmp_path, url, ref):
    with fails("git.option-like-name"):
        remote.resolve_ref(url, ref)
    with fails("git.option-like-name"):
        remote.fetch_commit(url, remote.ResolvedRef("1" * 40, ref), tmp_path / "x")


@pytest.mark.parametrize(
    "url", ["ext::sh -c x", "fd::17", "a+b://h/x", "ssh://-oP=x/y", "https://h/\n"]
)
def test_an_address_for_which_git_runs_another_program_is_refused(tmp_path, url):
    for ask in (
        lambda: remote.resolve_ref(url, "v1"),
        lambda: remote.fetch_commit(url, remote.ResolvedRef("1" * 40, "v1"), tmp_path / "x"),
        lambda: fork.branch_tip(url, "main"),
        lambda: fork.fetch_tip(tmp_path, url, "main", depth=1),
        lambda: fork.push(tmp_path, url, "1" * 40, "main", None),
    ):
        with fails("git.refused-address") as caught:
            ask()
        assert "\n" not in caught.value.where
        assert caught.value.exit_code == 2


def test_a_file_that_is_too_large(tmp_path, monkeypatch):
    commit = command.create_base_repository(tmp_path / "b.git", FILES, "m")
    monkeypatch.setattr(command, "LARGEST_FILE", 8)
    with fails("git.file-too-large", ".gitattributes has 40 bytes, more than the limit of 8"):
        list(command.commit_files(tmp_path / "b.git", commit))


def test_a_ref_that_moves_meanwhile(tmp_path):
    command.create_base_repository(tmp_path / "b.git", FILES, "m")
    stale = remote.ResolvedRef("1" * 40, "refs/heads/base")
    with fails("git.ref-moved"):
        remote.fetch_commit(str(tmp_path / "b.git"), stale, tmp_path / "c.git")


def test_git_missing(tmp_path):
    code = (
        "from vpatch.git import command as git\n"
        "try: git.run(None, 'version')\n"
        "except git.GitMissingError as e: print(e, e.code, int(e.exit_code))"
    )
    root = Path(command.__file__).parents[2]
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert "install git" in run.stdout
    assert run.stdout.split()[-2:] == ["git.missing", "4"]


def test_a_path_that_git_refuses_has_another_remedy(tmp_path):
    command.run(None, "init", "--quiet", "--", str(tmp_path / "r"))
    entry = f"100644,{'1' * 40},git~1"
    with pytest.raises(command.GitError, match="path") as caught:
        command.run(tmp_path / "r", "update-index", "--add", "--cacheinfo", entry)
    assert caught.value.hint_beside == (
        "rename that file in the source or the patch: git refuses its name"
    )
    with fails("checkout.refused-path") as refused, writing(tmp_path):
        raise caught.value
    assert refused.value.hint == caught.value.hint_beside
    with pytest.raises(command.GitError) as other:
        command.run(tmp_path / "r", "cat-file", "-p", "none")
    assert other.value.hint_beside is None
