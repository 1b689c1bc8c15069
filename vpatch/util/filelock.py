"""Shared and exclusive locks between processes.

flock and not filelock's ReadWriteLock: that does the job too, also after kill -9, but it brings in
sqlite3 and costs each run 60 ms.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vpatch.progress import Progress


# What the system answers where nothing may be written.
READ_ONLY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_POLL_SECONDS = 0.05
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


class FileLock:
    """A lock that is held; the kernel drops it when the process ends, however it ends."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def hand_on(self) -> None:
        """Let the program that takes this process's place hold the lock as long as it runs."""
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, True)  # noqa: FBT003

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def try_lock(path: Path, *, exclusive: bool) -> FileLock | None:
    """Take the lock, or return None where another holder is in the way."""
    return _lock(path, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)


def wait_for_lock(path: Path, *, exclusive: bool, on_wait: Callable[[], None]) -> FileLock:
    """Take the lock; `on_wait` is called once where that takes waiting for another holder."""
    lock = try_lock(path, exclusive=exclusive)
    if lock is None:
        on_wait()
        lock = _lock(path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    assert lock is not None  # noqa: S101 - a blocking flock returns with the lock or raises
    return lock


def note_of_wait(name: str, progress: Progress, does: str = "has") -> Callable[[], None]:
    """Return what tells the user that another process has the entry of a cache, or makes it."""
    return partial(progress.note, f"waiting for another vpatch process that {does} {name}")


def wait_to_make(
    path: Path, *, on_wait: Callable[[], None], exists: Callable[[], bool]
) -> FileLock | None:
    """Take the lock alone, to make something; None where another holder made it meanwhile.

    Who made it may go on to use it for hours, and nobody need wait for that.
    """
    is_waiting = False
    while True:
        lock = try_lock(path, exclusive=True)
        if lock is not None:
            return lock
        if exists():
            return None
        if not is_waiting:
            on_wait()
            is_waiting = True
        time.sleep(_POLL_SECONDS)


def _lock(path: Path, operation: int) -> FileLock | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # It is never removed: two processes could then hold "the same" lock on two files.
        # Nor is it ever a link: that could make a file anywhere.
        descriptor = os.open(path, _FLAGS | os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if operation & fcntl.LOCK_EX or error.errno not in READ_ONLY:
            raise
        # Somebody else's cache, or a read-only one. To share a lock, to read its file is enough;
        # where there is none, nobody here makes or removes what it protects.
        try:
            descriptor = os.open(path, _FLAGS | os.O_RDONLY)
        except OSError:
            return FileLock(None)
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return FileLock(descriptor)
