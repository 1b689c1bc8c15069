"""A proposal is sent: its branch to a fork, and a draft that a second run brings up to date.

Each step looks first at what is there, so that a run which was cut off is finished by the next:
the branch before the pull request, and neither twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch import git_fork as git
from vpatch.errors import UsageError, VpatchError
from vpatch.git_fork import ForkError, Person
from vpatch.source.locks import wait_for_lock
from vpatch.source.urls import split_credentials
from vpatch.upstream import body

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.github.client import Fork, GitHub, Pull
    from vpatch.progress import Progress
    from vpatch.upstream.propose import Proposed

_EXISTS = 422
_COMMIT = "commit"


@dataclass(frozen=True)
class Way:
    """How a proposal gets upstream: from where, by whom, and a folder of ours for its commits."""

    upstream_url: str
    fork: Fork
    fork_url: str
    person: Person
    room: Path

    @property
    def owner(self) -> str:
        return self.fork.full_name.partition("/")[0]


@dataclass(frozen=True)
class Sent:
    """What became of it. `kept` are parts of the body that a person changed, `gone` removed."""

    url: str
    commit: str
    pushed: bool
    created: bool
    updated: bool
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def refuse_credentials(url: str) -> str:
    """Return a URL for git, if no password stands in it.

    Raises:
        UsageError: there is one: it would be seen in the list of processes.
    """
    clean, credentials = split_credentials(url)
    if credentials is not None and (credentials[1] or not url.startswith("ssh://")):
        raise UsageError(
            "the fork's URL has credentials in it, which others would see",
            where=clean,
            todo="give it without them, and leave them to git (gh auth setup-git)",
        )
    return url


def refuse_ended(pull: Pull | None) -> None:
    """Refuse to go on where people closed or merged what was proposed before.

    Raises:
        VpatchError: they did.
    """
    if pull is not None and pull.state != "open":
        raise VpatchError(
            f"it was proposed before, and was {pull.state}",
            where=pull.url,
            todo="read why; if it is to be taken up again, reopen it there",
        )


def submit(proposed: Proposed, github: GitHub, way: Way, progress: Progress) -> Sent:
    """Push the branch, unless the fork has it, and open or update the pull request.

    Raises:
        ForkError: the fork cannot be read or written, or others wrote to the branch.
        GitHubError: GitHub refuses.
        VpatchError: upstream's branch moved on meanwhile, or the pull request was ended.
    """
    target, branch = proposed.target, proposed.branch
    pull = github.pull_of(target.repository, way.owner, branch, target.branch)
    refuse_ended(pull)
    waiting = lambda: progress.note(f"waiting for another vpatch in {way.room}")  # noqa: E731
    with wait_for_lock(way.room.with_suffix(".lock"), exclusive=True, on_wait=waiting):
        known = body.facts_of(pull.body).get(_COMMIT) if pull else None
        commit, pushed = _push(proposed, way, known, progress)
    text = body.with_fact(proposed.body, _COMMIT, commit)
    if pull is None:
        try:
            made = github.create_pull(
                target.repository, way.fork, branch, target.branch, proposed.title, text
            )
        except VpatchError as error:
            if getattr(error, "status", None) != _EXISTS:
                raise
            # An earlier request may have got there although its answer did not.
            pull = github.pull_of(target.repository, way.owner, branch, target.branch)
            if pull is None or pull.state != "open":
                raise
        else:
            return Sent(made.url, commit, pushed, created=True, updated=False)
    merged = body.update(pull.body, text)
    changed = merged.text != pull.body.replace("\r\n", "\n")
    if changed:
        github.update_pull(target.repository, pull.number, body=merged.text)
    return Sent(
        pull.url,
        commit,
        pushed,
        created=False,
        updated=changed,
        kept=merged.kept,
        gone=merged.gone,
    )


def _push(proposed: Proposed, way: Way, known: str | None, progress: Progress) -> tuple[str, bool]:
    """Bring the fork's branch to where it should be; its commit, and whether it had to move."""
    git.open_room(way.room)
    task = progress.start(f"Fetching {proposed.target.branch} of {proposed.target.repository}")
    # What the fork has already need not be fetched; from there on, upstream has it.
    if git.branch_tip(way.fork_url, way.fork.branch):
        git.fetch_tip(way.room, way.fork_url, way.fork.branch, depth=1)
    base = git.fetch_tip(way.room, way.upstream_url, proposed.target.branch, depth=None)
    task.done()
    if f"sha1:{base}" != proposed.base.digest:
        raise VpatchError(
            f"{proposed.target.branch} moved to {base[:12]} while this was made",
            where=proposed.target.repository,
            todo="run the command again",
        )
    now = datetime.now(UTC)
    made = git.add_commit(way.room, base, proposed.files, proposed.message, way.person, now)
    there = git.branch_tip(way.fork_url, proposed.branch)
    if there is not None:
        git.fetch_tip(way.room, way.fork_url, proposed.branch, depth=2)
        same = _same(way, base, made, there)
        if same == "whole":
            return there, False
        if same is None and there != known:
            raise ForkError(
                f"its branch {proposed.branch} has a commit that vpatch did not make "
                f"({git.subject_of(way.room, there)})",
                where=way.fork.full_name,
                todo="take what it changes into the patch, then delete that branch there",
            )
    task = progress.start(f"Pushing {proposed.branch} to {way.fork.full_name}")
    git.push(way.room, way.fork_url, made, proposed.branch, there)
    task.done()
    return made, True


def _same(way: Way, base: str, made: str, there: str) -> str | None:
    """How far a branch is the one that we would push: wholly, in what it changes, or not."""
    parent = git.parent_of(way.room, there)
    if parent == base and git.tree_of(way.room, there) == git.tree_of(way.room, made):
        told = git.message_of(way.room, there) == git.message_of(way.room, made)
        return "whole" if told else "changes"
    if parent and git.patch_id(way.room, parent, there) == git.patch_id(way.room, base, made):
        return "changes"
    return None
