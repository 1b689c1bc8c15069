"""A proposal is sent: its branch to a fork, and a draft that a second run brings up to date.

Each step looks first at what is there, so that a run which was cut off is finished by the next:
the branch before the pull request, and neither twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.commands.upstream import body
from vpatch.errors import UsageError, VpatchError
from vpatch.git import fork as git
from vpatch.git.fork import ForkError, Person
from vpatch.github.errors import GitHubError
from vpatch.util.filelock import wait_for_lock
from vpatch.util.urls import has_secret, redact

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.upstream.propose import Proposed
    from vpatch.github.client import Fork, GitHub, Pull
    from vpatch.progress import Progress

_EXISTS = 422
_COMMIT = "commit"


@dataclass(frozen=True)
class PushTarget:
    """How a proposal gets upstream: from where, in whose name, and a folder for its commits."""

    upstream_url: str
    fork: Fork
    fork_url: str
    person: Person
    workdir: Path

    @property
    def owner(self) -> str:
        return self.fork.full_name.partition("/")[0]


@dataclass(frozen=True)
class Sent:
    """The result; `unwritten` are parts of the body that stay as they were, and why."""

    url: str
    commit: str
    pushed: bool
    created: bool = False
    updated: bool = False
    unwritten: tuple[str, ...] = ()


def refuse_credentials(url: str) -> str:
    """Return a URL for git, if it has no password.

    Raises:
        UsageError: there is one: it would be seen in the list of processes.
    """
    if has_secret(url):
        raise UsageError(
            "the fork's URL contains credentials, which others would see",
            where=redact(url),
            hint="give it without them; git has its own way to log in (gh auth setup-git)",
            code="upstream.password-in-url",
        )
    return url


def submit(proposed: Proposed, github: GitHub, way: PushTarget, progress: Progress) -> Sent:
    """Push the branch, unless the fork has it, and open or update the pull request.

    Raises:
        ForkError: the fork cannot be read or written, or others wrote to the branch.
        GitHubError: GitHub refuses.
        VpatchError: upstream's branch moved on meanwhile, or the pull request was ended.
    """
    target, branch = proposed.context.target, proposed.branch
    repository = target.repository

    def ours() -> Pull | None:
        pull = github.pull_of(repository, way.owner, branch)
        # People closed or merged what was proposed before.
        if pull is not None and pull.state != "open":
            raise VpatchError(
                f"it was proposed before, and was {pull.state}",
                where=pull.url,
                hint="read why; if you want to continue, reopen it there",
                code="upstream.already-proposed",
            )
        return pull

    pull = ours()
    waiting = lambda: progress.note(f"waiting for another vpatch in {way.workdir}")  # noqa: E731
    with wait_for_lock(way.workdir.with_suffix(".lock"), exclusive=True, on_wait=waiting):
        known = body.facts_of(pull.body).get(_COMMIT) if pull else None
        commit, pushed = _push(proposed, way, known, progress)
    text = body.with_fact(proposed.body, _COMMIT, commit)
    # Anew: people may have written there while this fetched and pushed.
    pull = ours()
    if pull is None:
        try:
            new = github.create_pull(
                repository, way.fork, branch, target.branch, proposed.title, text
            )
        except GitHubError as error:
            if error.status != _EXISTS:
                raise
            # An earlier request may have got there although its answer did not.
            pull = ours()
            if pull is None:
                raise
        else:
            return Sent(new.url, commit, pushed, created=True)
    merged = body.update(pull.body, text)
    changed = merged.text != pull.body.replace("\r\n", "\n")
    if changed:
        github.update_pull(repository, pull.number, body=merged.text)
    return Sent(pull.url, commit, pushed, updated=changed, unwritten=merged.unwritten)


def _push(
    proposed: Proposed, way: PushTarget, known: str | None, progress: Progress
) -> tuple[str, bool]:
    """Bring the fork's branch to where it should be; its commit, and whether it had to move.

    A branch is ours where its commit is the one that the pull request's body names (`known`), or
    that this machine noted before it pushed.
    """
    context = proposed.context
    target = context.target
    git.open_room(way.workdir)
    task = progress.start(f"Fetching {target.branch} of {target.repository}")
    # What the fork has already need not be fetched; from there on, upstream has it.
    if git.branch_tip(way.fork_url, way.fork.branch):
        git.fetch_tip(way.workdir, way.fork_url, way.fork.branch, depth=1)
    base = git.fetch_tip(way.workdir, way.upstream_url, target.branch, depth=None)
    task.done()
    if f"sha1:{base}" != context.tree.pin.digest:
        raise VpatchError(
            f"{target.branch} moved to {base[:12]} while vpatch made the commit",
            where=target.repository,
            hint="run the command again",
            code="upstream.branch-moved",
        )
    now = datetime.now(UTC)
    commit = git.add_commit(way.workdir, base, proposed.files, proposed.message, way.person, now)
    there = git.branch_tip(way.fork_url, proposed.branch)
    note = f"{way.fork.full_name}/{proposed.branch}"
    if there is not None:
        git.fetch_tip(way.workdir, way.fork_url, proposed.branch, depth=2)
        # It is the one that would be made again, but for its date.
        parts = (git.parent_of, git.tree_of, git.message_of)
        if all(part(way.workdir, there) == part(way.workdir, commit) for part in parts):
            return there, False
        if there not in {known, git.noted(way.workdir, note)}:
            if git.tree_of(way.workdir, there) == git.tree_of(way.workdir, commit):
                return there, False  # by others' commits, and all that would be written is there
            raise _written_by_others(proposed, way, there, known)
    git.note(way.workdir, note, commit)
    task = progress.start(f"Pushing {proposed.branch} to {way.fork.full_name}")
    git.push(way.workdir, way.fork_url, commit, proposed.branch, there)
    task.done()
    return commit, True


def _written_by_others(
    proposed: Proposed, way: PushTarget, there: str, known: str | None
) -> ForkError:
    hint = "take what it changes into the patch, then "
    if known:
        hint += f"set the branch back to {known}, which vpatch made"
    else:
        hint += "remove that branch from the fork"
    return ForkError(
        f"its branch {proposed.branch} has a commit that vpatch did not make "
        f"({git.subject_of(way.workdir, there)})",
        where=way.fork.full_name,
        hint=f"{hint}; vpatch never overwrites other people's work",
        code="upstream.foreign-commit",
    )
