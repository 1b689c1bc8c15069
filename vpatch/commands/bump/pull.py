"""The branch of a bump goes to the user's own repository, as a pull request."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bump.markdown import markdown
from vpatch.errors import UsageError, VpatchError
from vpatch.git import origin as git
from vpatch.github.client import Fork
from vpatch.util.extras import require
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.commands.bump.report import BumpReport
    from vpatch.github.client import GitHub, Pull
    from vpatch.workspace.context import Context

REMOTE = git.ORIGIN
# GitHub takes 65536 characters.
_LONGEST_BODY = 60_000
_CUT = "\n\nThe report is longer than GitHub allows. `vpatch bump --output` writes all of it.\n"


@dataclass(frozen=True)
class PullPlace:
    """Where a pull request goes: a repository, by which API, and the branch that it is for.

    `pull` is the newest pull request from the bump's branch, if there is one. `tip` is the commit
    that the remote has on this branch.
    """

    folder: Path
    github: GitHub
    repository: str
    base: str
    branch: str
    pull: Pull | None
    tip: str | None


@dataclass(frozen=True)
class SentBump:
    """The pull request, and in words what was done; `pushed` and `opened` say what is new."""

    repository: str
    base: str
    url: str
    said: str
    pushed: bool = False
    opened: bool = False


@contextmanager
def pull_place(
    context: Context, repository: str | None, branch: str, base: str | None
) -> Iterator[PullPlace]:
    """Ask for all that a pull request needs, before anything is written.

    Args:
        context: the project.
        repository: OWNER/NAME; by default that of origin.
        branch: what is to be merged.
        base: the branch that it is for; None if there is none.

    Raises:
        UsageError: it is not known where to, no token is found, or there is no base.
        GitHubError: GitHub does not show the repository.
        GitError: the remote cannot be read.
    """
    require("upstream", "--pr")
    folder = context.project.folder
    name, host = _find_repository(folder, repository)
    if base is None:
        raise UsageError(
            "no branch was checked out, so it is not known what the pull request is for",
            where=str(folder),
            hint="git switch main before the bump, or leave out --pr and open it yourself",
            code="bump.no-base",
        )
    with ExitStack() as stack:
        github = context.github_of(name, stack)
        if host is not None and host != github.host:
            raise UsageError(
                f"{REMOTE} is on {host}, and the API is that of {github.host}",
                hint="set GITHUB_API_URL to the API of your host, or give --repository",
                code="bump.other-host",
            )
        if github.token is None:
            raise UsageError(
                f"a pull request needs a token, and vpatch found none for {github.host}",
                hint="gh auth login, or set GH_TOKEN",
                code="bump.no-token",
            )
        name = github.full_name(name)
        pull = github.pull_of(name, name.partition("/")[0], branch)
        tip = git.tip_there(folder, branch)
        yield PullPlace(folder, github, name, base, branch, pull, tip)


def intended(context: Context, branch: str) -> str | None:
    """Say what --pr would do; None if the project has no remote that a pull request can go to."""
    folder = context.project.folder
    try:
        url, base = git.remote_url(folder), git.current_branch(folder)
    except VpatchError:
        return None  # the branch is written; this is only advice
    hosted = git.hosted_name(url) if url else None
    if hosted is None or base is None:
        return None
    return (
        f"--pr would push {branch} to {REMOTE}, and open a pull request for {base} of {hosted[1]}"
    )


def open_pull(place: PullPlace, commit: str, title: str, body: str) -> SentBump:
    """Push the branch, unless the remote has one, and open a pull request, unless there is one.

    Nothing of other people is written over. Whoever closed a pull request does not get another one.
    `commit` is the last one of the branch.

    Raises:
        GitError: the remote refuses the branch.
        GitHubError: GitHub refuses the pull request.
    """
    pull, repository, base = place.pull, place.repository, place.base
    if pull is not None and pull.state == "closed":
        message = f"{pull.url} was closed, so nothing is sent; --branch names another branch"
        return SentBump(repository, base, pull.url, message)
    pushed = place.tip is None
    if pushed:
        git.push_new(place.folder, place.branch)
    other = not pushed and place.tip != commit
    more = f"; {REMOTE} has another {place.branch}, which stays" if other else ""
    if pull is not None and pull.state == "open":
        return SentBump(repository, base, pull.url, f"{pull.url} is open already{more}", pushed)
    itself = Fork(repository, "", base)
    new_pull = place.github.create_pull(
        repository, itself, place.branch, base, title, body, draft=False
    )
    message = f"{new_pull.url} is a new pull request for {base}{more}"
    return SentBump(repository, base, new_pull.url, message, pushed, opened=True)


def _find_repository(folder: Path, repository: str | None) -> tuple[str, str | None]:
    """The repository, as OWNER/NAME, and its host if the remote tells it."""
    url = git.remote_url(folder)
    if url is None:
        raise UsageError(
            f"there is no remote {REMOTE}",
            where=str(folder),
            hint=f"git remote add {REMOTE} URL",
            code="bump.no-remote",
        )
    if repository is not None:
        return repository, None
    hosted = git.hosted_name(url)
    if hosted is None:
        raise UsageError(
            f"the remote {REMOTE} does not name a repository of GitHub",
            where=redact(url),
            hint="give --repository OWNER/NAME",
            code="bump.no-remote",
        )
    return hosted[1], hosted[0]


def body_of(report: BumpReport) -> str:
    """The report; without diffs, or cut off, if it is longer than GitHub allows."""
    whole = markdown(report)
    return shortened(whole if len(whole) <= _LONGEST_BODY else markdown(report, with_diffs=False))


def shortened(body: str) -> str:
    """A body, cut off if it is longer than GitHub allows."""
    return body if len(body) <= _LONGEST_BODY else body[:_LONGEST_BODY] + _CUT
