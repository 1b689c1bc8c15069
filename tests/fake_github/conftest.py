from __future__ import annotations

import pytest
from github import Auth, Github

from tests.fake_github.asking import FORK, MERGED, TOKEN, UPSTREAM


@pytest.fixture
def upstream(github):
    repository = github.add_repository(
        UPSTREAM, tags={f"v0.{minor}.0": set("abc"[:minor]) for minor in range(4)}
    )
    repository.tags["v0.4.0"] = {*"abc", MERGED}
    repository.add_issue("Crash with two images", 7, body="See #12 for more", author="reporter")
    repository.add_pull(
        "[Bugfix] Do not crash",
        12,
        body="Fixes #7 in the scheduler",
        author="OctoCat",
        merged=True,
        merge_commit_sha=MERGED,
        files=["vllm/a.py", "vllm/b.py"],
        head_repo="stranger/vllm",
    )
    github.add_repository(FORK, fork_of=UPSTREAM, clone_url="file:///somewhere/vllm.git")
    return repository


@pytest.fixture
def connect():
    """Clients as they are used, but without waiting between requests, and without retries."""
    opened = []

    def connect(url, token=TOKEN, **options):
        settings = {"retry": None, "seconds_between_requests": 0, "seconds_between_writes": 0}
        auth = Auth.Token(token) if token else None
        client = Github(base_url=url, auth=auth, **(settings | options))
        opened.append(client)
        return client

    yield connect
    for client in opened:
        client.close()


@pytest.fixture
def client(github, connect):
    return connect(github.url)


@pytest.fixture
def ours(upstream, client):
    return client.get_repo(upstream.full_name)
