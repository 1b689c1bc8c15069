"""Decisions become a git checkout: all of it, or none."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.commits import commits_of, lock_of
from vpatch.checkout.generated import is_build_output
from vpatch.checkout.lock_changes import LockChanges, changes_since, lock_before
from vpatch.checkout.new_lock import NewLock
from vpatch.checkout.transaction import CheckoutTransaction, TargetError, WrongTargetError, writing
from vpatch.errors import UnavailableError
from vpatch.git import checkout as git
from vpatch.git.command import BASE_BRANCH
from vpatch.git.errors import GitError, GitMissingError
from vpatch.git.found import NoRepositoryError, opened_checkout
from vpatch.source.tree import LOCK_FILE
from vpatch.util.digest import digest_of
from vpatch.util.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.checkout.lockfile import LockedImage, LockFile
    from vpatch.git.command import FoundRepository
    from vpatch.planning.state import Plan
    from vpatch.progress import Progress
    from vpatch.source.tree import Pin

_log = logging.getLogger(__name__)
_SHOWN = 10
_BYTECODE = "__pycache__/"
# Remotes, excludes and hooks that a user may have set up in a checkout.
_SETTINGS = (".git/config", ".git/info/exclude", ".git/hooks")


@dataclass(frozen=True)
class ApplyRequest:
    """A plan to carry out, where, the name of its recipe if it has one, and who was `chosen`.

    `security` is how backports of security fixes were asked for.
    """

    plan: Plan
    recipe: str | None
    transaction: CheckoutTransaction
    chosen: tuple[str, ...] = ()
    security: str | None = None

    @property
    def target(self) -> Path:
        return self.transaction.target


@dataclass(frozen=True)
class Applied:
    """The result of a request. `outcome` is unchanged if the checkout was right already.

    `written` is the lock as it was written, or as it was found there. `changes` say what is not as
    in the checkout that was replaced, if that had a lock.
    """

    request: ApplyRequest
    written: NewLock | LockFile
    outcome: Literal["created", "replaced", "unchanged"]
    changes: LockChanges | None = None

    @cached_property
    def lock(self) -> LockFile:
        """The lock of the checkout."""
        return self.written.model() if isinstance(self.written, NewLock) else self.written


def apply(requests: Sequence[ApplyRequest], *, force: bool, progress: Progress) -> list[Applied]:
    """Make the checkouts of several plans, or leave everything as it was.

    With `force`, a checkout that holds changes by its user is overwritten.

    Raises:
        TargetError: a target holds changes, or another source, and there is no `force`.
        WrongTargetError: a target is a folder that vpatch did not make, or cannot be a folder.
        UnwritableTargetError: a target cannot be written.
    """
    unchanged = [_unchanged(request, force=force) for request in requests]
    applied: list[Applied] = []
    for request, known in zip(requests, unchanged, strict=True):
        if known is not None:
            applied.append(Applied(request, known, "unchanged"))
            continue
        with writing(request.target):
            before = lock_before(request.target)
            lock = _stage(request, before, progress)
            outcome: Literal["created", "replaced"] = (
                "replaced" if request.target.exists() else "created"
            )
        _log.info("%s is complete at commit %s, and not yet in place", request.target, lock.head)
        changes = None if before is None else changes_since(before, lock)
        applied.append(Applied(request, lock, outcome, changes))
    with uninterrupted():
        _put_in_place(
            [one.request.transaction for one in applied if one.outcome != "unchanged"], force
        )
    return applied


def _put_in_place(transactions: Sequence[CheckoutTransaction], force: bool) -> None:  # noqa: FBT001
    done: list[CheckoutTransaction] = []
    try:
        for transaction in transactions:
            with writing(transaction.target):
                transaction.put_in_place()
            done.append(transaction)
            if (transaction.aside / LOCK_FILE).is_file() and not force:
                # What was written there since it was looked at must not go with the old checkout.
                _refuse_changes(transaction)
    except BaseException:
        for transaction in reversed(done):
            transaction.take_back()
        raise


def _unchanged(request: ApplyRequest, *, force: bool) -> LockFile | None:
    """The lock of a checkout that already is what it should be, after a look at what is there."""
    target = request.target
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    from vpatch.checkout.lockfile import LockError, read_lock  # noqa: PLC0415 - needs pydantic

    if not (target / LOCK_FILE).is_file() or not (target / ".git").is_dir():
        raise WrongTargetError(
            "is not a checkout that vpatch made",
            where=str(target),
            hint="give another folder with --checkout, or move this one away",
            code="checkout.not-vpatchs",
        )
    try:
        lock = read_lock(target / LOCK_FILE)
    except LockError:
        if force:
            return None
        raise
    try:
        with opened_checkout(target) as repo:
            changes = list(_users_changes(target, repo, lock))
            messages = [] if changes else git.messages(repo, lock.base, lock.head)
    except GitMissingError:
        raise
    except (GitError, NoRepositoryError) as error:
        reason = error.gist if isinstance(error, GitError) else error.what
        raise WrongTargetError(
            f"its git repository cannot be read: {reason}",
            where=str(target),
            hint="repair it, or move the folder away",
            code="checkout.broken-repository",
        ) from error
    if changes and not force:
        raise _has_changes(changes, target)
    if _source(lock.source.pin()) != _source(request.plan.pin) and not force:
        raise TargetError(
            f"is a checkout of another source, {lock.source.origin}",
            where=str(target),
            hint="write elsewhere with --checkout, or overwrite it with --force",
            code="checkout.other-source",
        )
    planned = [commit.message.strip() for commit in commits_of(request.plan)]
    if changes or planned != messages:
        return None  # an earlier vpatch may have written other messages, and so other ids
    wanted = _lock_of(request, [patch.commit for patch in lock.patches])
    return lock if wanted.model().model_copy(update={"image": lock.image}) == lock else None


def _source(pin: Pin) -> tuple[str, str, str]:
    """What a checkout is a checkout of; another release of the same is an update."""
    return pin.tree, pin.kind, "" if pin.kind == "pypi" else pin.origin


def _refuse_changes(transaction: CheckoutTransaction) -> None:
    from vpatch.checkout.lockfile import read_lock  # noqa: PLC0415 - needs pydantic

    changes = users_changes(transaction.aside, read_lock(transaction.aside / LOCK_FILE))
    if changes:
        raise _has_changes(changes, transaction.target)


def _has_changes(changes: Sequence[str], target: Path) -> TargetError:
    shown = "".join(f"\n    {change}" for change in changes[:_SHOWN])
    more = f"\n    and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return TargetError(
        f"holds changes that vpatch did not make:{shown}{more}",
        where=str(target),
        hint="save them, or overwrite them with --force, or write elsewhere with --checkout",
        code="checkout.has-changes",
    )


def users_changes(target: Path, lock: LockFile) -> list[str]:
    """What is in a checkout that its lock does not account for, a line each."""
    with opened_checkout(target) as repo:
        return list(_users_changes(target, repo, lock))


def _users_changes(target: Path, repo: FoundRepository, lock: LockFile) -> Iterator[str]:
    branch = git.current_branch(repo)
    if branch != git.PATCHED_BRANCH:
        there = f"the branch {branch}" if branch else "a commit"
        yield f"{there} is checked out, not the branch {git.PATCHED_BRANCH}"
    own = {
        f"refs/heads/{BASE_BRANCH}": lock.base,
        f"refs/heads/{git.PATCHED_BRANCH}": lock.head,
    }
    for ref, commit in git.refs(repo).items():
        if ref not in own:
            yield f"a ref of yours: {ref}"
        elif commit != own[ref]:
            yield f"commits of yours: {ref} is at {commit[:12]}, not at {own[ref][:12]}"
    yield from (f"commits of yours, in the reflog: {c[:12]}" for c in git.lost_commits(repo))
    yield from (f"a worktree of yours: {name}" for name in git.worktrees(target))
    yield from (f"a submodule of yours: {path}" for path in git.submodules(repo))
    yield from (f"hidden from git: {path}" for path in git.hidden_files(repo))
    changed = git.changed_files(repo)
    written = [path for path in git.tracked_and_ignored(repo) if is_build_output(target, path)]
    own_files = {*written} - {file.path for file in lock.files}
    yield from (f"changed or new: {path}" for path in changed if path not in own_files)


def _stage(request: ApplyRequest, before: LockFile | None, progress: Progress) -> NewLock:
    """Finish the checkout beside its target, complete with lock, and check what was written."""
    if request.target.exists() and not os.access(request.target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(request.target))
    task = progress.start(f"Writing {request.target}")
    folder, base = request.transaction.repository()
    commits = git.add_commits(folder, base, commits_of(request.plan))
    git.check_out(folder, git.PATCHED_BRANCH)
    lock = _lock_of(request, commits)
    lock = replace(lock, image=_image_of(before, lock))
    for file in lock.files:
        written = digest_of((folder / file.path).read_bytes())
        if written != file.after:
            raise UnavailableError(
                f"{file.path} was written as {written}, not as {file.after}",
                where=str(request.target),
                hint="check the disk, and run the command again",
                code="checkout.written-wrong",
            )
    _carry_over(request.target, folder)
    (folder / LOCK_FILE).write_text(lock.dump(), encoding="utf-8")
    task.done()
    return lock


def _lock_of(request: ApplyRequest, commits: Sequence[str]) -> NewLock:
    return lock_of(
        request.plan,
        request.recipe,
        request.transaction.base,
        commits,
        carried=request.transaction.carried,
        chosen=request.chosen,
        security=request.security,
    )


def _image_of(before: LockFile | None, lock: NewLock) -> LockedImage | None:
    """The base that images of the same source were built on: it stays, whatever the patches are."""
    if before is None or before.image is None or before.source.digest != lock.source.digest:
        return None
    return before.image


def _carry_over(old: Path, new: Path) -> None:
    """Keep the checkout's settings, and what its user built and git ignores; no bytecode."""
    if not (old / ".git").is_dir():
        return
    for path in _SETTINGS:
        if (old / path).is_dir():
            shutil.copytree(old / path, new / path, symlinks=True, dirs_exist_ok=True)
        elif (old / path).is_file():
            shutil.copy2(old / path, new / path)
    with opened_checkout(old) as repo:
        ignored = git.ignored_files(repo)
    for path in ignored:
        target = new / path
        if path == LOCK_FILE or _BYTECODE in path or os.path.lexists(target):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if (old / path).is_dir() and not (old / path).is_symlink():
            # git names a repository in a repository, and not what is in it.
            shutil.copytree(old / path, target, symlinks=True, copy_function=_link)
        else:
            _link(old / path, target)


def _link(old: Path | str, new: Path | str) -> None:
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:  # a file system without links, or a file of somebody else
        shutil.copy2(old, new, follow_symlinks=False)
