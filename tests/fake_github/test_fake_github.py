"""The fake GitHub answers as GitHub does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from github import BadCredentialsException, GithubException, UnknownObjectException

from tests.fake_github.asking import FORK, MERGED, UPSTREAM, create, queried

UNKNOWN = "f" * 40


# What GitHub answers


def test_user_and_rate_limit(github, client):
    github.login, github.rate_remaining = "somebody", 17
    assert client.get_user().login == "somebody"
    assert client.rate_limiting == (17, 5000)
    assert client.get_rate_limit().rate.remaining == 17


@pytest.mark.usefixtures("upstream")
def test_repositories(client):
    assert client.get_repo("VLLM-Project/vllm").default_branch == "main"
    fork = client.get_repo(FORK)
    assert (fork.fork, fork.parent.full_name, fork.source.full_name) == (True, UPSTREAM, UPSTREAM)
    assert fork.clone_url == "file:///somewhere/vllm.git"
    assert fork.permissions.push
    assert not fork.parent.permissions.push
    with pytest.raises(UnknownObjectException):
        client.get_repo("vllm-project/other")


def test_issue_and_pull(ours):
    issue = ours.get_issue(7)
    assert (issue.number, issue.user.login, issue.pull_request) == (7, "reporter", None)
    assert ours.get_issue(12).pull_request.html_url.endswith("/pull/12")
    pull = ours.get_pull(12)
    assert (pull.state, pull.merged, pull.merge_commit_sha) == ("closed", True, MERGED)
    assert (pull.head.repo.full_name, pull.base.repo.full_name) == ("stranger/vllm", UPSTREAM)
    assert [one.filename for one in pull.get_files()] == ["vllm/a.py", "vllm/b.py"]
    with pytest.raises(UnknownObjectException):
        ours.get_pull(7)
    with pytest.raises(UnknownObjectException):
        ours.get_issue(99)


def test_a_fork_that_is_gone(github, upstream, connect):
    upstream.threads[12].head_repo = None
    assert connect(github.plain_url).get_repo(UPSTREAM).get_pull(12).head.repo is None


def test_a_draft_is_created_once_then_edited(github, upstream, ours):
    pull = create(ours, maintainer_can_modify=True)
    assert (pull.number, pull.draft, pull.user.login, pull.state) == (13, True, "octocat", "open")
    assert pull.html_url == f"https://github.com/{UPSTREAM}/pull/13"
    assert (pull.head.label, pull.head.repo.full_name) == ("octocat:vpatch/x", FORK)
    with pytest.raises(GithubException) as refused:
        create(ours)
    assert refused.value.status == 422
    assert refused.value.data["errors"] == [
        {
            "resource": "PullRequest",
            "code": "custom",
            "message": "A pull request already exists for octocat:vpatch/x.",
        }
    ]
    pull.edit(title="New", body="Other", state="closed")
    thread = upstream.threads[13]
    assert (thread.title, thread.body, thread.state) == ("New", "Other", "closed")
    assert ours.get_pull(13).closed_at is not None
    assert create(ours).number == 14
    assert github.count("POST", "/pulls$") == 3
    assert github.requests[-1].body["head"] == "octocat:vpatch/x"


def test_what_cannot_be_proposed(github, ours):
    github.repositories[FORK].branches = {"pushed": "1" * 40}
    github.repositories[UPSTREAM].branches = {"main": "2" * 40}
    assert create(ours, "pushed").head.sha == "1" * 40
    for arguments, field in (
        (("main", "octocat:other"), "head"),
        (("main", "stranger:pushed"), "head"),
        (("gone", "octocat:pushed"), "base"),
    ):
        with pytest.raises(GithubException) as refused:
            ours.create_pull(*arguments, title="Title")
        assert refused.value.data["errors"][0]["field"] == field


def test_pulls_are_listed_by_head_base_and_state(upstream, ours):
    mine = create(ours).number
    upstream.add_pull("Same branch, other owner", head_repo="other/vllm", head_ref="vpatch/x")
    assert [one.number for one in ours.get_pulls(head="octocat:vpatch/x")] == [mine]
    assert [one.number for one in ours.get_pulls()] == [14, 13]
    assert [one.number for one in ours.get_pulls(state="closed")] == [12]
    assert not list(ours.get_pulls(state="all", base="other"))


def test_lists_come_in_pages(github, upstream, connect):
    repository = connect(github.url, per_page=2).get_repo(UPSTREAM)
    assert [tag.name for tag in repository.get_tags()] == [f"v0.{n}.0" for n in (4, 3, 2, 1, 0)]
    assert github.count("GET", "/tags$") == 3
    assert github.requests[-1].query == {"per_page": "2", "page": "3"}
    assert repository.get_tags().totalCount == 5
    upstream.threads[12].files = [f"f{n}" for n in range(5)]
    assert len(list(repository.get_pull(12).get_files())) == 5


def test_compare(ours):
    contained = ours.compare("v0.4.0", MERGED)
    assert (contained.status, contained.ahead_by) == ("behind", 0)
    assert contained.behind_by > 0
    assert ours.compare("v0.3.0", MERGED).status == "ahead"
    assert ours.compare(MERGED, "v0.4.0").status == "ahead"
    assert ours.compare("v0.4.0", "v0.4.0").status == "identical"
    assert ours.compare("v0.3.0", "0" * 40).status == "diverged"
    for base, head in (("v0.4.0", UNKNOWN), ("v9.0.0", MERGED)):
        with pytest.raises(UnknownObjectException):
            ours.compare(base, head)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (f"repo:{UPSTREAM} is:pr author:octocat", [12]),
        (f"repo:{UPSTREAM} is:issue crash", [7]),
        (f"repo:{UPSTREAM} CRASH", [12, 7]),
        (f"repo:{UPSTREAM} scheduler in:title", []),
        (f'repo:{UPSTREAM} "in the scheduler" type:pr in:title,body', [12]),
        (f'repo:{UPSTREAM} "the in scheduler"', []),
        (f"repo:{UPSTREAM} #7 is:pr", [12]),
        (f"repo:{UPSTREAM} crash is:open", [7]),
        (f"repo:{FORK} crash", []),
    ],
)
@pytest.mark.usefixtures("upstream")
def test_search(client, query, numbers):
    found = client.search_issues(query)
    assert [one.number for one in found] == numbers
    assert found.totalCount == len(numbers)


@pytest.mark.parametrize("query", ["repo:vllm-project/other x", "x" * 257])
def test_what_cannot_be_searched(client, query):
    with pytest.raises(GithubException) as refused:
        list(client.search_issues(query))
    assert (refused.value.status, refused.value.data["errors"][0]["field"]) == (422, "q")


def test_search_comes_in_pages(github, upstream, connect):
    for number in range(5):
        upstream.add_issue(f"Flaky {number}")
    found = connect(github.url, per_page=2).search_issues(f"repo:{UPSTREAM} flaky")
    assert [one.title for one in found] == [f"Flaky {number}" for number in (4, 3, 2, 1, 0)]


# GraphQL


def test_open_pulls_by_graphql(github, upstream, client):
    for number in range(3):
        upstream.add_pull(f"Open {number}", author="somebody", files=["a.py"], draft=number == 0)
    pages, after = [], None
    while True:
        answer = queried(client, 2, after)
        found = answer["repository"]["pullRequests"]
        pages.append([one["title"] for one in found["nodes"]])
        after = found["pageInfo"]["endCursor"]
        if not found["pageInfo"]["hasNextPage"]:
            break
    assert (pages, found["totalCount"]) == ([["Open 2", "Open 1"], ["Open 0"]], 3)
    assert found["nodes"] == [
        {
            "number": 13,
            "title": "Open 0",
            "url": f"https://github.com/{UPSTREAM}/pull/13",
            "isDraft": True,
            "headRefName": "topic",
            "author": {"login": "somebody"},
            "files": {"totalCount": 1, "nodes": [{"path": "a.py"}]},
        }
    ]
    reset = datetime.strptime(answer["rateLimit"]["resetAt"], "%Y-%m-%dT%H:%M:%S%z")
    assert reset == datetime.fromtimestamp(github.rate_reset, UTC)
    assert github.requests[-1].path == "/graphql"


@pytest.mark.usefixtures("upstream")
def test_what_graphql_refuses(client):
    with pytest.raises(UnknownObjectException, match="Could not resolve to a Repository"):
        queried(client, name="other")
    with pytest.raises(GithubException) as refused:
        queried(client, first=101)
    assert refused.value.data["errors"][0]["type"] == "EXCESSIVE_PAGINATION"
    with pytest.raises(GithubException, match="Cannot query field 'logn' on type 'User'"):
        client.requester.graphql_query("{ viewer { logn } }", {})
    with pytest.raises(GithubException, match=r"does not answer User\.bio"):
        client.requester.graphql_query("{ viewer { bio } }", {})


# Tokens


@pytest.mark.usefixtures("upstream")
def test_tokens(github, connect):
    refused = connect(github.url, "ghp_other")
    with pytest.raises(BadCredentialsException):
        refused.get_repo(UPSTREAM)
    anonymous = connect(github.url, None)
    assert anonymous.get_repo(UPSTREAM).get_pull(12).merged
    for ask in (
        lambda: anonymous.get_user().login,
        lambda: create(anonymous.get_repo(UPSTREAM)),
        lambda: queried(anonymous),
    ):
        with pytest.raises(GithubException) as needed:
            ask()
        assert needed.value.status == 401
