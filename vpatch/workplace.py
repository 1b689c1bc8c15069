"""Where a checkout is made: beside its target, under a lock, and put in its place at once."""

from __future__ import annotations

import glob
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self

from vpatch import git_checkout as git
from vpatch.errors import VpatchError
from vpatch.git import BASE_BRANCH, GitError
from vpatch.source.locks import wait_for_lock
from vpatch.source.tree import LOCK_FILE
from vpatch.swap import put_in_place, remove, restore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from vpatch.progress import Progress
    from vpatch.source.entry import CachedTree


class TargetError(VpatchError):
    """A checkout cannot be written, or holds what must not be lost."""


class Workplace:
    """The folder beside `target` in which its next state is made.

    While it is open no other vpatch works on the target, and what a killed one left is gone. A
    target that does not exist yet surely has to be written, so its pristine files are laid out by
    a second thread while the patches are planned: the two take about as long.
    """

    def __init__(self, target: Path, tree: CachedTree, progress: Progress) -> None:
        self.target = target
        self._tree = tree
        self._progress = progress
        self._staging = target.parent / f".{target.name}.new-{os.getpid()}"
        self._aside = target.parent / f".{target.name}.old"
        self._stack = ExitStack()
        self._base = (target, "")
        self._ahead: Future[None] | None = None

    def __enter__(self) -> Self:
        with writing(self.target), ExitStack() as stack:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(
                wait_for_lock(
                    self.target.parent / f".{self.target.name}.lock",
                    exclusive=True,
                    on_wait=lambda: self._progress.note(
                        f"waiting for another vpatch that works on {self.target}"
                    ),
                )
            )
            stack.callback(self._clean)
            self._clean()
            # Made here if it has to be: a second thread must not draw its progress.
            self._base = self._tree.base_repository(self._progress)
            if not self.target.exists():
                self._create()
                thread = stack.enter_context(ThreadPoolExecutor(1))
                self._ahead = thread.submit(git.check_out, self._staging, BASE_BRANCH)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def pristine(self) -> tuple[Path, str]:
        """A checkout of the pristine tree, and its one commit."""
        if self._ahead is None:
            self._create()
            git.check_out(self._staging, BASE_BRANCH)
        else:
            self._ahead.result()
        return self._staging, self._base[1]

    def put_in_place(self) -> None:
        put_in_place(self._staging, self.target, self._aside)

    def take_back(self) -> None:
        """Undo `put_in_place`."""
        if self._aside.exists():
            put_in_place(self._aside, self.target, self._staging)
        else:
            self.target.rename(self._staging)

    def _create(self) -> None:
        git.create_checkout(self._staging, *self._base, [LOCK_FILE])

    def _clean(self) -> None:
        restore(self.target, self._aside)
        for leftover in self.target.parent.glob(f".{glob.escape(self.target.name)}.new-*"):
            # A git that outlives the vpatch that was killed may still write there; what it leaves
            # is removed by the next run.
            remove(leftover)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn what a full disk or a missing permission does into one clear error."""
    try:
        yield
    except GitError as error:
        raise _cannot_write(target, error.gist) from error
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise _cannot_write(target, reason) from error


def _cannot_write(target: Path, reason: str) -> TargetError:
    return TargetError(
        f"cannot be written: {reason}",
        where=str(target),
        todo="free space or correct the permissions, or give another folder with --to; "
        "nothing was changed",
    )
