"""What the tests of the fake ask it, and about which repositories."""

from __future__ import annotations

import requests

UPSTREAM = "vllm-project/vllm"
FORK = "octocat/vllm"
TOKEN = "ghp_test"  # noqa: S105
MERGED = "a" * 40
OPEN_PULLS = """
query($owner: String!, $name: String!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequests(states: OPEN, first: $first, after: $after,
                 orderBy: {field: CREATED_AT, direction: DESC}) {
      totalCount
      pageInfo { hasNextPage endCursor }
      nodes {
        number title url isDraft headRefName
        author { login }
        files(first: 100) { totalCount nodes { path } }
      }
    }
  }
  rateLimit { remaining resetAt }
}
"""


def create(repository, branch="vpatch/x", **facts):
    return repository.create_pull(
        "main", f"octocat:{branch}", title="Title", body="Text", draft=True, **facts
    )


def post(url, path, body, timeout=20):
    headers = {"Authorization": f"token {TOKEN}"}
    where = f"{url}/repos/{UPSTREAM}{path}"
    return requests.post(where, json=body, headers=headers, timeout=timeout)


def queried(client, first=100, after=None, name="vllm"):
    variables = {"owner": "vllm-project", "name": name, "first": first, "after": after}
    return client.requester.graphql_query(OPEN_PULLS, variables)[1]["data"]
