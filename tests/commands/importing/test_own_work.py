"""What the user just imported is trusted, and what may be somebody else's is not."""

from __future__ import annotations

import shutil

import pytest

from tests.commands.importing.test_import import ENGINE_DIFF
from tests.projects import ENGINE, VERSION, git
from vpatch.commands.importing.request import ImportRequest
from vpatch.commands.importing.sources.own_work import why_not_own

HEAD = "From 0123456789abcdef Mon Sep 17 00:00:00 2001\nFrom: {} <{}>\nSubject: Go slow\n\n---\n"


@pytest.fixture
def source(empty):
    empty.env["GIT_AUTHOR_NAME"] = "U"  # what only commits read counts for nothing
    (empty.folder / "fix.diff").write_text(ENGINE_DIFF)
    home = empty.folder.parent / "home"
    (home / ".gitconfig").write_text("[user]\n\tname = U\n\temail = u@example\n")
    return empty


def imported(project, *args):
    """Import a change, and return why it is not trusted, or an empty text."""
    run = project.run("import", *args, "--vllm", VERSION, "--releases", "none")
    notes = [line for line in run.err.splitlines() if "not trusted" in line]
    trusted = "patches/" in project.run("trust", "--list").out
    assert trusted is not bool(notes)
    return "".join(notes)


def test_a_diff_of_ones_own_is_trusted_as_it_is(source):
    assert imported(source, "fix.diff") == ""
    (source.patches / "fix" / "new.py").write_text("")
    assert source.run("trust", "--dry-run").out.startswith("changed")


def test_a_diff_of_another_author_is_not_trusted(source):
    file = source.folder / "fix.diff"
    file.write_text(HEAD.format("Eve", "eve@example") + ENGINE_DIFF)
    note = imported(source, "fix.diff")
    assert "its author is eve@example" in note
    assert note.endswith("read every file there, then: vpatch trust patches/go-slow")
    shutil.rmtree(source.patches)
    file.write_text(HEAD.format("U", "u@example") + ENGINE_DIFF)
    assert imported(source, "fix.diff") == ""


def test_a_diff_that_came_with_a_repository_is_not_trusted(source):
    git(source.folder, "init", "-q")
    assert imported(source, "fix.diff") == ""
    shutil.rmtree(source.patches)
    source.run("trust", "--revoke")
    git(source.folder, "add", "fix.diff")
    git(source.folder, "commit", "-q", "-m", "fix")
    assert "fix.diff is committed to a repository" in imported(source, "fix.diff")


@pytest.fixture
def checkout(source):
    """A checkout that vpatch made, with the release as it is, and a change of the user in it."""
    source.run("import", "fix.diff", "--vllm", VERSION, "--id", "other", "--releases", "none")
    source.run("apply", "--vllm", VERSION, "--patch", "other")
    source.run("trust", "--revoke")
    shutil.rmtree(source.patches)
    return source.target


def change(checkout):
    file = checkout / ENGINE
    file.write_text(file.read_text().replace('"fast"', '"slow"') + "# mine\n")


def test_a_checkout_that_the_user_changed_is_trusted(source, checkout):
    git(checkout, "checkout", "-q", "base")
    change(checkout)
    assert imported(source, "--from-tree", str(checkout)) == ""
    shutil.rmtree(source.patches)
    git(checkout, "commit", "-q", "-a", "-m", "mine")
    assert imported(source, "--from-tree", str(checkout)) == ""


def test_a_checkout_with_commits_of_others_is_not_trusted(source, checkout):
    """Its patches may be anybody's, and so may what was pulled into it."""
    change(checkout)
    assert "vpatch@localhost" in imported(source, "--from-tree", str(checkout))
    shutil.rmtree(source.patches)
    git(checkout, "checkout", "-q", "-f", "base")
    change(checkout)
    git(checkout, "commit", "-q", "-a", "-m", "hers", "--author", "Eve <eve@example>")
    assert "eve@example" in imported(source, "--from-tree", str(checkout))


def test_another_tree_is_not_trusted(source, checkout):
    git(checkout, "checkout", "-q", "base")
    change(checkout)
    shutil.rmtree(checkout / ".git")
    assert "no checkout that vpatch made" in imported(source, "--from-tree", str(checkout))
    shutil.rmtree(source.patches)
    git(checkout, "init", "-q")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "all")
    assert "no checkout that vpatch made" in imported(source, "--from-tree", str(checkout))


@pytest.mark.parametrize("kind", ["pull", "range", "script", "module"])
def test_what_others_write_is_not_trusted(kind):
    assert why_not_own(ImportRequest("x", kind=kind), ())


def test_trust_that_cannot_be_recorded_takes_no_patch_back(source):
    store = source.folder.parent / "home" / ".local" / "share" / "vpatch" / "trust"
    store.mkdir(parents=True)
    store.chmod(0o777)
    run = source.run("import", "fix.diff", "--vllm", VERSION, "--releases", "none")
    assert "patches/fix is not trusted yet: others can write to this folder" in run.err
    assert (source.patches / "fix" / "patch.yaml").exists()
