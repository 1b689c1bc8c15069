"""GitHub, as far as proposing a patch needs it."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from vpatch import __version__
from vpatch.github.errors import GitHubError, UnreadableAnswer, asking
from vpatch.github.tokens import Token, find_token, web_host

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from github import Github
    from github.PullRequest import PullRequest
    from github.Repository import Repository

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
PUBLIC = "https://api.github.com"
_SECONDS = 30
_OWN_FAULT = 500
_PAGE = 100
# Of tags, open pull requests or files: vLLM has a tenth of it. A server may never stop.
_MOST = 20_000
# A page of open pull requests with their files, within the time that GraphQL allows itself.
_PULLS_A_PAGE = 50
_OPEN_PULLS = """
query ($owner: String!, $name: String!, $count: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequests(states: OPEN, first: $count, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes {
        number title url isDraft
        author { login }
        files(first: 100) { totalCount nodes { path } }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class Thread:
    """An issue or a pull request. `merged_as` is the commit on upstream's branch."""

    repository: str
    number: int
    kind: Literal["issue", "pull request"]
    state: Literal["open", "closed", "merged"]
    title: str
    author: str
    url: str
    merged_as: str | None = None

    @property
    def ref(self) -> str:
        return f"{self.repository}#{self.number}"


@dataclass(frozen=True)
class OpenPull:
    """An open pull request with the files that it touches; `whole` where these are all."""

    thread: Thread
    files: frozenset[str]
    whole: bool


@dataclass(frozen=True)
class Fork:
    full_name: str
    url: str
    branch: str


@dataclass(frozen=True)
class Pull:
    """A pull request of ours."""

    number: int
    url: str
    state: Literal["open", "closed", "merged"]
    base: str
    body: str


@dataclass(frozen=True)
class PullFile:
    """A file of a pull request. `old_path` is its name before, if it was renamed or copied.

    `hunks` are as in a unified diff; None where GitHub leaves them out, as of large or binary
    files.
    """

    path: str
    status: str
    hunks: str | None
    old_path: str | None = None


@dataclass(frozen=True)
class PullChange:
    """What a pull request says and changes."""

    title: str
    body: str
    files: tuple[PullFile, ...]


def default_api() -> str:
    """Return the API of GITHUB_API_URL, which GitHub's runners set, or the public one."""
    return (os.environ.get("GITHUB_API_URL") or PUBLIC).rstrip("/")


class GitHub:
    """A session with one API. Every method raises `GitHubError` where GitHub refuses or fails.

    Reading is tried again where GitHub had a short failure, writing never.
    """

    def __init__(self, api: str | None = None, hosts: Collection[str] = ()) -> None:
        self.api = (api or default_api()).rstrip("/")
        self.token: Token | None = find_token(self.api, hosts=hosts)
        self._secret = self.token.value if self.token else None
        source = self.token.source if self.token else "nowhere: there is none"
        _log.info("GitHub's API is %s, and the token is from %s", self.api, source)
        self._github = self._open()

    def close(self) -> None:
        self._github.close()

    def _open(self) -> Github:
        from github import Auth, Github  # noqa: PLC0415

        from vpatch.github.connection import limit_answers  # noqa: PLC0415
        from vpatch.util.limited import PatientRetry  # noqa: PLC0415

        limit_answers()
        return Github(
            base_url=self.api,
            auth=Auth.Token(self._secret) if self._secret else None,
            user_agent=f"vpatch/{__version__}",
            timeout=_SECONDS,
            per_page=_PAGE,
            retry=PatientRetry(
                total=2,
                connect=0,
                # A connection that was kept open may have been closed meanwhile.
                read=1,
                backoff_factor=0.5,
                status_forcelist=(502, 503, 504),
                allowed_methods=("GET",),
                raise_on_status=False,
                respect_retry_after_header=False,
            ),
            # Between requests GitHub asks for nothing; between writes for a second.
            seconds_between_requests=None,
            lazy=True,
        )

    @property
    def host(self) -> str:
        return web_host(self.api)

    def login(self) -> str:
        """Return the name of the person that the token is for."""
        with asking(f"{self.host}: who the token is for", self._secret):
            return _read(self._github.get_user().login)

    def thread(self, repository: str, number: int) -> Thread:
        """Return the issue or pull request of a number."""
        with asking(f"{repository}#{number}", self._secret):
            issue = self._repository(repository).get_issue(number)
            if issue.pull_request is None:
                return _thread(repository, issue, "issue", issue.state)
            return _of_pull(repository, self._repository(repository).get_pull(number))

    def tags(self, repository: str) -> list[str]:
        """Return the names of all tags."""
        with asking(f"{repository}: its tags", self._secret):
            tags = self._repository(repository).get_tags()
            return [tag.name for tag in islice(tags, _MOST)]

    def contains(self, repository: str, tag: str, commit: str) -> bool:
        """Say whether a commit is an ancestor of what a tag names, or that itself."""
        with asking(f"{repository}: {tag} and {commit[:12]}", self._secret):
            compared = self._repository(repository).compare(tag, commit)
            return compared.status in {"behind", "identical"}

    def merge_base(self, repository: str, old: str, new: str) -> tuple[str, datetime]:
        """Return the last commit that two revisions have in common, and when it was made."""
        with asking(f"{repository}: {old} and {new}", self._secret):
            commit = self._repository(repository).compare(old, new).merge_base_commit
            return commit.sha, commit.commit.committer.date

    def search(self, query: str) -> list[Thread]:
        """Return all threads that a search finds (GitHub's own search syntax).

        Raises:
            GitHubError: there are more than a page of them, or GitHub did not look everywhere.
        """
        where = f"{self.host}: a search for {query}"
        with asking(where, self._secret):
            # PyGithub's list does not tell whether the search was complete.
            _, answer = self._github.requester.requestJsonAndCheck(
                "GET", "/search/issues", parameters={"q": query, "per_page": _PAGE}
            )
            count, whole = int(answer["total_count"]), not answer["incomplete_results"]
            threads = [_thread_of_item(item) for item in answer["items"]]
        if not whole or count > _PAGE:
            raise GitHubError(
                f"the search finds {count} threads, or was not finished",
                where=where,
                hint="give rarer keywords in the proposal, then run the command again",
                code="github.too-many-results",
            )
        return threads

    def count(self, query: str) -> int:
        """Return how many threads a search finds."""
        with asking(f"{self.host}: a search for {query}", self._secret):
            return self._github.search_issues(query).totalCount

    def open_pulls(self, repository: str) -> Iterator[OpenPull]:
        """Yield every open pull request with the files it touches: a search does not see these.

        By GraphQL, fifty at a time: by REST it would be a request for each.
        """
        owner, _, name = repository.partition("/")
        variables: dict[str, str | int] = {"owner": owner, "name": name, "count": _PULLS_A_PAGE}
        where = f"{repository}: its open pulls"
        for _ in range(_MOST // _PULLS_A_PAGE):
            answer = self.graphql(_OPEN_PULLS, variables, where)
            with asking(where, self._secret):
                page = answer["data"]["repository"]["pullRequests"]
                pulls = [_open_pull(repository, node) for node in page["nodes"]]
                variables["after"] = page["pageInfo"]["endCursor"]
                more = page["pageInfo"]["hasNextPage"]
            yield from pulls
            if not more:
                return
        raise GitHubError(
            f"there are more than {_MOST} of them",
            where=where,
            hint="vpatch cannot compare with so many; please report it",
            code="github.too-many-results",
        )

    def graphql(self, query: str, variables: Mapping[str, str | int], where: str) -> Any:
        """Ask by GraphQL, and once more after a short failure: it is a POST that only reads."""
        for last in (False, True):
            try:
                with asking(where, self._secret):
                    _, answer = self._github.requester.graphql_query(query, dict(variables))
                    return answer
            except GitHubError as error:
                if last or (error.status or 0) < _OWN_FAULT:
                    raise
        raise AssertionError

    def hunks(self, repository: str, number: int) -> dict[str, str | None]:
        """Return what a pull request changes, by file; None where GitHub leaves out a large one."""
        with asking(f"{repository}#{number}: its files", self._secret):
            files = _files_of(self._repository(repository).get_pull(number))
        hunks = {file.path: file.hunks for file in files}
        # What it renames, it changes under the old name.
        return hunks | {file.old_path: file.hunks for file in files if file.old_path}

    def pull_change(self, repository: str, number: int) -> PullChange:
        """Return what a pull request says, and what it changes."""
        with asking(f"{repository}#{number}: its files", self._secret):
            pull = self._repository(repository).get_pull(number)
            return PullChange(pull.title, pull.body or "", _files_of(pull))

    def fork(self, upstream: str, name: str | None) -> Fork:
        """Return somebody's fork of a repository, by default that of the token's person.

        Raises:
            GitHubError: it is not there, or is a fork of something else.
        """
        name = name or f"{self.login()}/{upstream.partition('/')[2]}"
        hint = f"gh repo fork {upstream} --clone=false, or name yours with --fork OWNER/NAME"
        try:
            with asking(name, self._secret):
                repo = self._repository(name)
                of = {one.full_name for one in (repo.parent, repo.source) if one is not None}
                fork = Fork(_read(repo.full_name), repo.clone_url, repo.default_branch)
        except GitHubError as error:
            if error.status != 404:  # noqa: PLR2004
                raise
            raise GitHubError(
                f"there is no fork of {upstream} there",
                404,
                where=name,
                hint=hint,
                code="github.no-fork",
            ) from error
        if upstream not in of:
            raise GitHubError(
                f"it is not a fork of {upstream}", where=name, hint=hint, code="github.no-fork"
            )
        return fork

    def pull_of(self, repository: str, owner: str, branch: str) -> Pull | None:
        """Return the newest pull request from somebody's branch, whatever its state and base."""
        with asking(f"{repository}: its pull requests from {owner}:{branch}", self._secret):
            pulls = self._repository(repository).get_pulls(
                state="all", head=f"{owner}:{branch}", sort="created", direction="desc"
            )
            # Looked at as well as asked for: a filter that is ignored would give a stranger's.
            label = f"{owner}:{branch}".casefold()
            mine = (one for one in pulls.get_page(0) if one.head.label.casefold() == label)
            return next((_pull(one) for one in mine), None)

    def full_name(self, repository: str) -> str:
        """Return the present name of a repository, which may have been renamed."""
        with asking(repository, self._secret):
            return _read(self._repository(repository).full_name)

    def create_pull(
        self,
        repository: str,
        fork: Fork,
        branch: str,
        base: str,
        title: str,
        body: str,
        *,
        draft: bool = True,
    ) -> Pull:
        """Open a pull request from the branch of a fork, or of the repository itself."""
        owner = fork.full_name.partition("/")[0]
        with asking(f"{repository}: a pull request from {owner}:{branch}", self._secret):
            pull = self._repository(repository).create_pull(
                base=base,
                head=f"{owner}:{branch}",
                title=title,
                body=body,
                draft=draft,
                # In one repository, all who may write to it can.
                maintainer_can_modify=fork.full_name != repository,
            )
            return _pull(pull)

    def update_pull(self, repository: str, number: int, *, body: str) -> None:
        """Set a pull request's body; its title is people's once it is there."""
        with asking(f"{repository}#{number}", self._secret):
            self._repository(repository).get_pull(number).edit(body=body)

    def _repository(self, name: str) -> Repository:
        return self._github.get_repo(name)


def _read(value: _T | None) -> _T:
    """Return what every answer of its kind has; PyGithub makes None of what it does not find."""
    if value is None:
        raise UnreadableAnswer
    return value


def _thread(
    repository: str, thread: Any, kind: str, state: str, merged_as: str | None = None
) -> Thread:
    return Thread(
        repository,
        _read(thread.number),
        cast("Literal['issue', 'pull request']", kind),
        cast("Literal['open', 'closed', 'merged']", state),
        thread.title,
        thread.user.login if thread.user else "ghost",
        thread.html_url,
        merged_as,
    )


def _thread_of_item(item: Mapping[str, Any]) -> Thread:
    kind: Literal["issue", "pull request"] = "pull request" if "pull_request" in item else "issue"
    author = item["user"]["login"] if item["user"] else "ghost"
    return Thread(
        "/".join(item["repository_url"].rsplit("/", 2)[1:]),
        item["number"],
        kind,
        item["state"],
        item["title"],
        author,
        item["html_url"],
    )


def _files_of(pull: PullRequest) -> tuple[PullFile, ...]:
    files = islice(pull.get_files(), _MOST)
    return tuple(PullFile(f.filename, f.status, f.patch, f.previous_filename) for f in files)


def _of_pull(repository: str, pull: PullRequest) -> Thread:
    if not pull.merged:
        return _thread(repository, pull, "pull request", pull.state)
    return _thread(repository, pull, "pull request", "merged", pull.merge_commit_sha)


def _open_pull(repository: str, node: Mapping[str, Any]) -> OpenPull:
    author = node["author"]["login"] if node["author"] else "ghost"
    files = node["files"] or {"totalCount": 0, "nodes": []}
    paths = frozenset(one["path"] for one in files["nodes"])
    thread = Thread(
        repository, node["number"], "pull request", "open", node["title"], author, node["url"]
    )
    return OpenPull(thread, paths, files["totalCount"] == len(paths))


def _pull(pull: PullRequest) -> Pull:
    state = "merged" if pull.merged_at else pull.state
    return Pull(
        _read(pull.number),
        pull.html_url,
        cast("Literal['open', 'closed', 'merged']", state),
        pull.base.ref,
        pull.body or "",
    )
