"""The remote of the user's own repository."""

from __future__ import annotations

import pytest

from tests.helpers import fails
from tests.projects import git, own_repository
from vpatch.git.origin import current_branch, hosted_name, push_new, remote_url, tip_there


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://github.com/me/mine.git", ("github.com", "me/mine")),
        ("https://github.com/me/mine", ("github.com", "me/mine")),
        ("https://user:secret@GitHub.com/me/mine.git/", ("github.com", "me/mine")),
        ("http://127.0.0.1:8080/me/mine.git", ("127.0.0.1:8080", "me/mine")),
        ("git@github.com:me/mine.git", ("github.com", "me/mine")),
        ("ghe.example.com:me/mine", ("ghe.example.com", "me/mine")),
        ("ssh://git@github.com:22/me/my.tool.git", ("github.com", "me/my.tool")),
        ("https://gitlab.com/group/part/mine.git", None),
        ("/srv/git/mine.git", None),
        ("../mine.git", None),
        ("file:///srv/mine.git", None),
        ("", None),
    ],
)
def test_the_name_in_an_address(url, found):
    assert hosted_name(url) == found


@pytest.fixture
def cloned(tmp_path):
    """A repository with a branch to push, and its bare origin."""
    folder, bare = tmp_path / "mine", tmp_path / "origin.git"
    folder.mkdir()
    own_repository(folder)
    git(folder, "init", "--quiet", "--bare", str(bare))
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "x")
    git(folder, "remote", "add", "origin", "https://github.com/me/mine.git")
    git(folder, "config", f"url.{bare}.insteadOf", "https://github.com/me/mine.git")
    git(folder, "branch", "new")
    return folder, bare


def test_a_branch_is_pushed_by_the_settings_of_the_repository(cloned):
    folder, bare = cloned
    assert remote_url(folder, "origin") == "https://github.com/me/mine.git"
    assert tip_there(folder, "origin", "new") is None
    hook = folder / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    push_new(folder, "origin", "new")
    assert tip_there(folder, "origin", "new") == git(folder, "rev-parse", "new").strip()
    assert git(bare, "for-each-ref", "--format=%(refname)") == "refs/heads/new\n"


def test_what_others_pushed_meanwhile_stays(cloned):
    folder, bare = cloned
    push_new(folder, "origin", "new")
    before = git(bare, "for-each-ref")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "y")
    git(folder, "branch", "--force", "new")
    with fails("git.failed", "stale info|rejected"):
        push_new(folder, "origin", "new")
    assert git(bare, "for-each-ref") == before


def test_no_remote_and_no_branch(cloned):
    folder, _ = cloned
    assert remote_url(folder, "upstream") is None
    assert current_branch(folder) == "main"
    git(folder, "switch", "--quiet", "--detach")
    assert current_branch(folder) is None
