"""What is asked of GitHub, and what its failures become."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.fake_github import Fault
from tests.helpers import fails
from vpatch.errors import ExitCode
from vpatch.github import client
from vpatch.github.client import GitHub
from vpatch.github.connection import _Http, _Https
from vpatch.github.errors import GitHubError
from vpatch.github.tokens import web_host
from vpatch.util import limited
from vpatch.util.untrusted import MEGABYTE

UPSTREAM = "vllm-project/vllm"


@pytest.fixture
def connect(github, monkeypatch):
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "ghp_test")
    github.add_repository(UPSTREAM)

    def open_github(url=github.url):
        return closing(GitHub(url, [web_host(url)]))

    return open_github


def test_threads(github, connect):
    there = github.find(UPSTREAM)
    there.add_issue("An issue", 1, author="ann", state="closed")
    there.add_pull("A pull", 2, merged=True, merge_commit_sha="a" * 40)
    there.add_pull("Turned down", 3, state="closed")
    with connect() as found:
        issue, merged, closed = (found.thread(UPSTREAM, number) for number in (1, 2, 3))
    assert (issue.kind, issue.state, issue.author, issue.ref) == (
        "issue", "closed", "ann", f"{UPSTREAM}#1",
    )  # fmt: skip
    assert (merged.kind, merged.state, merged.merged_as) == ("pull request", "merged", "a" * 40)
    assert (closed.state, closed.merged_as) == ("closed", None)


def test_more_pages_than_one(github, connect):
    there = github.find(UPSTREAM)
    there.tags = {f"v0.{number}.0": set() for number in range(120)}
    for number in range(1, 121):
        there.add_pull(f"Pull {number}", number, files=[f"{n}.py" for n in range(number)])
    with connect() as found:
        assert len(found.tags(UPSTREAM)) == 120
        pulls = list(found.open_pulls(UPSTREAM))
        assert len(found.hunks(UPSTREAM, 120)) == 120
    assert sorted(pull.thread.number for pull in pulls) == list(range(1, 121))
    assert github.count("POST", "/graphql$") == 3
    # Of one that touches more files than a page has, not all are known.
    assert {pull.thread.number for pull in pulls if not pull.whole} == set(range(101, 121))


def test_what_it_says_of_itself(github, connect):
    with connect() as found:
        assert found.login() == "octocat"
    assert github.requests[-1].headers["user-agent"].startswith("vpatch/")


@pytest.mark.parametrize(
    ("fault", "code", "ends"),
    [
        (Fault("GET", "/user$", 401), "github.wrong-token", ExitCode.FINDINGS),
        (Fault("GET", "/user$", 403), "github.no-permission", ExitCode.FINDINGS),
        (Fault("GET", "/user$", 404), "github.not-found", ExitCode.FINDINGS),
        (Fault("GET", "/user$", 422), "github.refused", ExitCode.FINDINGS),
        (Fault("GET", "/user$", 410), "github.refused", ExitCode.FINDINGS),
        (
            Fault.rate_limited("GET", "/user$", 4102444800),
            "github.rate-limit",
            ExitCode.ENVIRONMENT,
        ),
        (
            Fault.secondary_limit("GET", "/user$", 60),
            "github.rate-limit",
            ExitCode.ENVIRONMENT,
        ),
        (Fault("GET", "/user$", 429), "github.rate-limit", ExitCode.ENVIRONMENT),
        (Fault("GET", "/user$", 500), "github.failed", ExitCode.ENVIRONMENT),
        (
            Fault("GET", "/user$", 502, body="<html>Unicorn!</html>", times=9),
            "github.failed",
            ExitCode.ENVIRONMENT,
        ),
        (
            Fault("GET", "/user$", 200, body="<html>Log in</html>"),
            "github.unreadable-answer",
            ExitCode.ENVIRONMENT,
        ),
    ],
)
def test_failures(github, connect, fault, code, ends):
    github.faults = [fault]
    with connect(github.plain_url) as found, fails(code) as caught:
        found.login()
    assert caught.value.exit_code == ends
    assert caught.value.hint
    assert "who the token is for" in caught.value.where
    assert "ghp_test" not in str(caught.value)


def test_a_repository_that_was_renamed(github, connect):
    new = f"{github.plain_url}/repos/vllm-project/new/issues/1"
    github.add_repository("vllm-project/new").add_issue("It moved", 1)
    github.faults = [Fault("GET", "/vllm/issues/1$", 301, {"message": "Moved"}, {"location": new})]
    with connect(github.plain_url) as found:
        assert found.thread(UPSTREAM, 1).title == "It moved"


def test_nobody_is_followed_to_another_host(github, connect):
    elsewhere = {"location": "http://other.example/user"}
    github.faults = [Fault("GET", "/user$", 301, {"message": "Moved"}, elsewhere)]
    with connect(github.plain_url) as found, fails("github.other-host"):
        found.login()


def test_a_fork_that_is_none(github, connect):
    github.add_repository("octocat/vllm")
    with connect() as found:
        for name in ("octocat/vllm", "octocat/gone"):
            with fails("github.no-fork"):
                found.fork(UPSTREAM, name)


def test_when_to_ask_again(github, connect):
    with connect(github.plain_url) as found:
        github.faults = [Fault.rate_limited("GET", "/user$", 4102444800)]
        with pytest.raises(GitHubError) as caught:
            found.login()
        assert caught.value.hint == "run it again after 00:00:00 UTC"
        github.faults = [Fault.secondary_limit("GET", "/user$", 60)]
        with pytest.raises(GitHubError) as caught:
            found.login()
        assert caught.value.hint == "run it again in 60 s"


def test_a_short_failure_is_tried_again_where_nothing_is_written(github, connect):
    github.faults = [Fault("GET", "/user$", 502, times=2)]
    with connect(github.plain_url) as found:
        assert found.login() == "octocat"
        fork = client.Fork("octocat/vllm", "u", "main")
        github.add_repository("octocat/vllm", fork_of=UPSTREAM)
        github.faults = [Fault("POST", "/pulls$", 502, times=9)]
        with pytest.raises(GitHubError):
            found.create_pull(UPSTREAM, fork, "b", "main", "t", "x")
    assert github.count("POST", "/pulls$") == 1


def test_no_answer_in_time(github, connect, monkeypatch):
    monkeypatch.setattr(client, "_SECONDS", 1)
    github.faults = [Fault("GET", "/user$", "hang", times=9)]
    with connect(github.plain_url) as found, fails("github.unreachable") as caught:
        found.login()
    assert caught.value.what == "GitHub did not answer in time"
    assert "run the command again" in caught.value.hint


def test_nobody_is_there(connect):
    with connect("http://127.0.0.1:9") as found, fails("github.unreachable") as caught:
        found.login()
    assert "Connection refused" in caught.value.what


def test_a_token_in_what_github_says(github, connect):
    github.faults = [Fault("GET", "/user$", 403, {"message": "not with ghp_test"})]
    with connect(github.plain_url) as found, pytest.raises(GitHubError) as caught:
        found.login()
    assert caught.value.what == "the token does not permit this: not with ***"


def test_a_proxy_is_used(github, connect, monkeypatch):
    """requests reads the usual variables, and so does this."""
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("HTTP_PROXY", github.plain_url)
    with connect("http://localhost:1") as found, pytest.raises(GitHubError):
        found.login()
    assert github.requests


def test_enterprise(github, connect):
    with connect(f"{github.plain_url}/api/v3") as found, pytest.raises(GitHubError):
        found.login()
    assert github.requests[-1].path == "/api/v3/user"


def test_a_short_failure_of_what_reads_by_post(github, connect):
    github.find(UPSTREAM).add_pull("One", 1)
    github.faults = [Fault("POST", "/graphql$", 502)]
    with connect(github.plain_url) as found:
        assert len(list(found.open_pulls(UPSTREAM))) == 1
        github.faults = [Fault("POST", "/graphql$", 502, times=2)]
        with pytest.raises(GitHubError, match="502"):
            list(found.open_pulls(UPSTREAM))


def test_the_limit_of_graphql(github, connect):
    body = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit already exceeded"}]}
    github.faults = [Fault("POST", "/graphql$", 200, body)]
    with connect(github.plain_url) as found, fails("github.rate-limit"):
        list(found.open_pulls(UPSTREAM))


def test_more_than_a_page_of_finds(github, connect):
    for number in range(1, 102):
        github.find(UPSTREAM).add_issue("It fails", number)
    with connect() as found, fails("github.too-many-results", "finds 101 threads"):
        found.search(f'repo:{UPSTREAM} is:issue "It fails"')


def test_an_answer_that_does_not_end(github, connect, monkeypatch):
    monkeypatch.setattr(limited, "LARGEST_ANSWER", MEGABYTE)
    github.faults = [Fault("GET", "/user$", 200, body={"login": "x" * 2 * MEGABYTE})]
    with (
        connect(github.plain_url) as found,
        fails("github.unreadable-answer", "the answer is larger than 1 MB"),
    ):
        found.login()
    for kind, scheme in ((_Http, "http"), (_Https, "https")):
        sends = kind("localhost").session.get_adapter(f"{scheme}://localhost")
        assert isinstance(sends, limited.LimitedAdapter)


def test_connections_are_kept(github, connect):
    with connect(github.plain_url) as found:
        found.login()
        first = found._github.requester._Requester__connection
        found.tags(UPSTREAM)
        assert found._github.requester._Requester__connection is first


def test_a_list_that_does_not_end(github, connect, monkeypatch):
    monkeypatch.setattr(client, "_MOST", 60)
    there = github.find(UPSTREAM)
    there.tags = {f"v0.{number}.0": set() for number in range(120)}
    for number in range(1, 121):
        there.add_pull(f"Pull {number}", number)
    with connect() as found:
        assert len(found.tags(UPSTREAM)) == 60
        with fails("github.too-many-results", "there are more than 60 of them"):
            list(found.open_pulls(UPSTREAM))


@pytest.mark.parametrize(
    ("path", "body", "ask"),
    [
        ("/user$", {"login": 3}, lambda found: found.login()),
        ("/user$", "[" * 100_000, lambda found: found.login()),
        ("/search/", {"items": []}, lambda found: found.search("x")),
        ("/search/", {"items": [1]}, lambda found: found.search("x")),
        ("/graphql$", {"data": {}}, lambda found: list(found.open_pulls(UPSTREAM))),
        ("/graphql$", {"data": None}, lambda found: list(found.open_pulls(UPSTREAM))),
    ],
)
def test_answers_that_are_none_of_githubs(github, connect, path, body, ask):
    github.faults = [Fault(way, path, 200, body, times=9) for way in ("GET", "POST")]
    with connect(github.plain_url) as found, pytest.raises(GitHubError) as caught:
        ask(found)
    assert caught.value.code in {"github.unreadable-answer", "github.failed"}


@pytest.mark.parametrize("reset", ["9" * 5000, "soon", "-1"])
def test_a_time_that_is_none(github, connect, reset):
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
    github.faults = [Fault("GET", "/user$", 429, {"message": "rate limit"}, headers)]
    with connect(github.plain_url) as found, pytest.raises(GitHubError):
        found.login()


def test_an_answer_that_is_to_come_later_is_not_waited_for(github, connect):
    github.faults = [Fault("GET", "/user$", 202, {}, times=9)]
    with (
        connect(github.plain_url) as found,
        fails("github.unreadable-answer"),
    ):
        found.login()
    assert github.count("GET", "/user$") == 1
