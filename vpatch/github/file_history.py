"""What GitHub knows of the commits that change a file between two releases.

By GraphQL, a request for each file: by REST it would be one for each commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vpatch.git.file_history import FileRevision
from vpatch.github.errors import GitHubError, asking

if TYPE_CHECKING:
    from vpatch.github.client import GitHub

# Each has the whole file, and GraphQL allows itself ten seconds.
_COMMITS_A_PAGE = 25
# Of one file between two releases: vLLM has a tenth of it.
_MOST = 1000
_HISTORY = """
query (
  $owner: String!, $name: String!, $new: String!, $base: String!, $path: String!,
  $since: GitTimestamp, $count: Int!, $after: String
) {
  repository(owner: $owner, name: $name) {
    base: object(expression: $base) { ... on Blob { text } }
    object(expression: $new) {
      ... on Commit {
        history(path: $path, since: $since, first: $count, after: $after) {
          pageInfo { hasNextPage endCursor }
          nodes {
            oid messageHeadline committedDate
            parents(first: 1) { totalCount }
            file(path: $path) { object { ... on Blob { text } } }
          }
        }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class GitHubHistory:
    """The commits of a repository on GitHub from one release to a later one.

    `base` is the last commit that both have, and was made at `since`.
    """

    github: GitHub
    repository: str
    new: str
    description: str
    base: str
    since: datetime

    @classmethod
    def between(cls, github: GitHub, repository: str, old: str, new: str) -> GitHubHistory:
        """Ask for what two releases have in common.

        Raises:
            GitHubError: GitHub lacks one of them, refuses, or fails.
        """
        base, since = github.merge_base(repository, old, new)
        description = f"{repository} on {github.host}, {old}..{new}"
        return cls(github, repository, new, description, base, since)

    def changes(self, path: str) -> list[FileRevision]:
        """Return what commits make of a file, the oldest first; no merges.

        Upstream has a commit for each change, one after the other. So a file is before a commit
        what the commit before it made.

        Raises:
            GitHubError: GitHub refuses, or fails.
        """
        owner, _, name = self.repository.partition("/")
        where = f"{self.repository}: the commits of {path}"
        variables: dict[str, str | int] = {
            "owner": owner,
            "name": name,
            "new": self.new,
            "base": f"{self.base}:{path}",
            "path": path,
            "since": self.since.isoformat(),
            "count": _COMMITS_A_PAGE,
        }
        nodes: list[Any] = []
        while len(nodes) < _MOST:
            answer = self.github.graphql(_HISTORY, variables, where)
            with asking(where):
                there = answer["data"]["repository"]
                page = there["object"]["history"]
                nodes += page["nodes"]
                variables["after"] = page["pageInfo"]["endCursor"]
                if not page["pageInfo"]["hasNextPage"]:
                    return _changes(nodes, _text(there["base"]), self.base)
        raise GitHubError(
            f"more than {_MOST} commits change it",
            where=where,
            hint="give --clone instead",
            code="github.too-many-results",
        )


def _changes(nodes: list[Any], base: bytes | None, base_id: str) -> list[FileRevision]:
    revisions = []
    before = base
    for node in reversed(nodes):
        if node["oid"] == base_id or node["parents"]["totalCount"] > 1:
            continue
        after = _text(node["file"] and node["file"]["object"])
        when = int(datetime.fromisoformat(node["committedDate"]).timestamp())
        revisions.append(FileRevision(node["oid"], node["messageHeadline"], when, before, after))
        before = after
    return revisions


def _text(blob: Any) -> bytes | None:
    text = blob and blob.get("text")
    return None if text is None else str(text).encode()
