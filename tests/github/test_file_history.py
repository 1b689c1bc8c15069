"""The commits of a file, as GitHub tells them: the same as a clone tells."""

from __future__ import annotations

import pytest

from tests.helpers import fails
from tests.projects import git
from vpatch.git.file_history import ClonedHistory
from vpatch.git.found import opened_source
from vpatch.github import file_history
from vpatch.github.client import GitHub
from vpatch.github.file_history import GitHubHistory
from vpatch.github.tokens import web_host

UPSTREAM = "vllm-project/vllm"
PATHS = ("vllm/a.py", "vllm/b.py", "vllm/c.py")


@pytest.fixture
def upstream(github, tmp_path, monkeypatch):
    """A repository whose older release was made on a branch of its own."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    count = 0

    def commit(subject, **files):
        nonlocal count
        count += 1
        for name, text in files.items():
            path = tmp_path / "vllm" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.unlink() if text is None else path.write_text(text)
        git(tmp_path, "add", "--all")
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-01-{count:02}T00:00:00+00:00")
        git(tmp_path, "commit", "--quiet", "-m", subject)

    commit("Add a and b", a="one\n", b="one\n")
    commit("Change b", b="two\n")
    git(tmp_path, "switch", "--quiet", "-c", "releases/v0.50")
    commit("Only in the release", a="released\n")
    git(tmp_path, "tag", "v0.50.0")
    git(tmp_path, "switch", "--quiet", "main")
    for number in range(4):
        commit(f"Change a, {number}\n\nA reason.", a=f"{number}\n")
    commit("Remove a, add c", a=None, c="three\n")
    git(tmp_path, "tag", "v0.51.0")
    commit("Later", b="later\n")
    github.add_repository(UPSTREAM, git=tmp_path)
    return tmp_path


@pytest.fixture
def connected(github, monkeypatch):
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "ghp_test")
    found = GitHub(github.url, [web_host(github.url)])
    yield found
    found.close()


@pytest.mark.parametrize("page", [2, 25])
def test_as_a_clone_has_them(upstream, connected, github, monkeypatch, page):
    monkeypatch.setattr(file_history, "_COMMITS_A_PAGE", page)
    history = GitHubHistory.between(connected, UPSTREAM, "v0.50.0", "v0.51.0")
    with opened_source(upstream) as repo:
        clone = ClonedHistory(repo, "", "v0.50.0", "v0.51.0")
        for path in PATHS:
            assert history.changes(path) == clone.changes(path), path
    assert [len(history.changes(path)) for path in PATHS] == [5, 0, 1]
    assert history.description.startswith(f"{UPSTREAM} on 127.0.0.1")
    assert history.description.endswith(", v0.50.0..v0.51.0")
    # A page of a file is a request.
    assert github.count("POST", "/graphql$") == 2 * (5 if page == 2 else 3)


def test_a_release_that_github_does_not_have(upstream, connected):
    assert upstream.is_dir()
    with fails("github.not-found"):
        GitHubHistory.between(connected, UPSTREAM, "v0.49.0", "v0.51.0")


def test_more_commits_than_anybody_reads(upstream, connected, monkeypatch):
    assert upstream.is_dir()
    monkeypatch.setattr(file_history, "_COMMITS_A_PAGE", 2)
    monkeypatch.setattr(file_history, "_MOST", 2)
    history = GitHubHistory.between(connected, UPSTREAM, "v0.50.0", "v0.51.0")
    with fails("github.too-many-results"):
        history.changes("vllm/a.py")
