"""Where a checkout is made: beside its target, under a lock, and put in its place at once."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.git import checkout as git
from vpatch.git.command import BASE_BRANCH
from vpatch.git.errors import GitError, GitMissingError
from vpatch.git.found import refuse_strangers
from vpatch.source.tree import LOCK_FILE
from vpatch.util.directories import remove, replace_dir, restore
from vpatch.util.filelock import wait_for_lock
from vpatch.util.os_errors import is_wrong_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vpatch.progress import Progress
    from vpatch.source.entry import CachedTree
    from vpatch.util.filelock import FileLock


_IGNORES = ".gitignore"
_LOCK = "lock"
_NEW = "new-"
_OLD = "old"
# How a user names another folder: vpatch source has no option for it.
ELSEWHERE = "another folder with --checkout"


class TargetError(VpatchError):
    """A checkout cannot be replaced, for instance because it holds changes by its user."""


class UnwritableTargetError(UnavailableError):
    """A checkout cannot be written: the disk is full, or permissions are missing."""

    code = "checkout.unwritable"


class WrongTargetError(UsageError):
    """The target is not a checkout that vpatch made, was changed, or cannot exist."""


def _workdir_of(target: Path) -> Path:
    return target.parent / f".{target.name}.vpatch"


def lock_target(target: Path, progress: Progress) -> FileLock:
    """Wait until no other vpatch works on a checkout, and keep others from it."""
    return wait_for_lock(
        _workdir_of(target) / _LOCK,
        exclusive=True,
        on_wait=lambda: progress.note(f"waiting for another vpatch that works on {target}"),
    )


class CheckoutTransaction:
    """The folder `.NAME.vpatch` beside `target`, in which its next state is made.

    It is vpatch's own; nothing beside it is ever removed. While it is open no other vpatch works on
    the target, and what a killed one left is gone.
    """

    def __init__(
        self, target: Path, tree: CachedTree, progress: Progress, *, elsewhere: str = ELSEWHERE
    ) -> None:
        self.target = target
        self._elsewhere = elsewhere
        self.tree = tree
        self._progress = progress
        self._workdir = _workdir_of(target)
        self._staging = self._workdir / f"{_NEW}{os.getpid()}"
        self.aside = self._workdir / _OLD
        self._stack = ExitStack()
        self._base = (target, "")
        self._ahead: Future[None] | None = None

    def __enter__(self) -> Self:
        with self.writing(), ExitStack() as stack:
            self._check_room()
            stack.enter_context(lock_target(self.target, self._progress))
            stack.callback(self._clean)
            self._clean()
            if not (ignores := self._workdir / _IGNORES).exists():
                # The project's own repository then lists nothing of it.
                ignores.write_text("*\n", encoding="ascii")
            # Made here if it has to be: a second thread must not draw its progress.
            self._base = self.tree.base_repository(self._progress)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def carried(self) -> frozenset[str]:
        """Ids of the patches that the source tree carries already."""
        return self.tree.carried

    @property
    def base(self) -> str:
        """The id of the commit of the pristine tree."""
        return self._base[1]

    def begin(self) -> None:
        """Let a second thread write the pristine files, while the patches are planned.

        The two take about as long. Only a target that does not exist yet surely has to be written.
        """
        # What was planned before needs no thread.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        if self.target.exists():
            return
        with self.writing():
            self._create()
        thread = self._stack.enter_context(ThreadPoolExecutor(1))
        self._ahead = thread.submit(git.check_out, self._staging, BASE_BRANCH)

    def repository(self) -> tuple[Path, str]:
        """The checkout in the making, and its base commit. The pristine files may be there."""
        if self._ahead is None:
            self._create()
        else:
            self._ahead.result()
        return self._staging, self.base

    def put_in_place(self) -> None:
        replace_dir(self._staging, self.target, self.aside)

    def put_into_empty(self) -> None:
        """Put the checkout where nothing is, or an empty folder.

        Raises:
            OSError: something is there (ENOTEMPTY, EEXIST or ENOTDIR).
        """
        self._staging.rename(self.target)

    def writing(self) -> AbstractContextManager[None]:
        """Turn what a full disk or a wrong path does into one clear error."""
        return writing(self.target, self._elsewhere)

    def take_back(self) -> None:
        """Undo `replace_dir`."""
        if self.aside.exists():
            replace_dir(self.aside, self.target, self._staging)
        else:
            self.target.rename(self._staging)

    def _check_room(self) -> None:
        for path in (self._workdir, *(self._workdir.iterdir() if self._workdir.is_dir() else ())):
            if path.is_symlink():
                raise WrongTargetError(
                    f"is a symbolic link to {path.readlink()}, which vpatch did not make",
                    where=str(path),
                    hint="remove it",
                    code="checkout.foreign-files",
                )
        if self._workdir.is_dir():
            refuse_strangers(self._workdir)
        names = {path.name for path in self._workdir.iterdir()} if self._workdir.is_dir() else set()
        foreign = sorted(
            n for n in names if n not in {_LOCK, _OLD, _IGNORES} and not n.startswith(_NEW)
        )
        if foreign or (names and _LOCK not in names):
            raise WrongTargetError(
                "vpatch works in this folder, and it holds files that vpatch did not put there",
                where=str(self._workdir),
                hint=f"move it away, or name {self._elsewhere}",
                code="checkout.foreign-files",
            )

    def _create(self) -> None:
        if self.tree.is_private:
            self._staging.mkdir(mode=0o700)
        git.create_checkout(self._staging, *self._base, [LOCK_FILE])

    def _clean(self) -> None:
        restore(self.target, self.aside)
        for leftover in self._workdir.glob(f"{_NEW}*"):
            # A git that outlives the vpatch that was killed may still write there; what it leaves
            # is removed by the next run.
            remove(leftover)


@contextmanager
def writing(target: Path, elsewhere: str = ELSEWHERE) -> Iterator[None]:
    """Turn what a full disk, a missing permission or a wrong path does into one clear error."""
    try:
        yield
    except GitMissingError:
        raise
    except GitError as error:
        what = f"cannot be written: {error.gist}"
        if error.hint_beside:
            raise TargetError(
                what, where=str(target), hint=error.hint_beside, code="checkout.refused-path"
            ) from error
        raise UnwritableTargetError(what, where=str(target), hint=_space(elsewhere)) from error
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        what = f"cannot be written: {reason}"
        if is_wrong_path(error):
            hint = f"correct {target}, or name {elsewhere}"
            raise WrongTargetError(
                what, where=str(target), hint=hint, code="checkout.bad-path"
            ) from error
        raise UnwritableTargetError(what, where=str(target), hint=_space(elsewhere)) from error


def _space(elsewhere: str) -> str:
    return f"free space or correct the permissions, or give {elsewhere}; nothing was changed"
