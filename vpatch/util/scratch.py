"""What a run writes to and removes again. What a killed run leaves, the next one removes.

Each folder and each file is locked as long as its run lives. The kernel drops the lock of a run
that was killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.util.directories import remove
from vpatch.util.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedRandom

_PREFIX = "vpatch-"
# As tempfile names them. Only a folder with our mark is ours: a user's may be called so, too.
_FOLDER = re.compile(r"vpatch-[a-z0-9_]{8}")
_MARK = ".vpatch-scratch"
_PART = re.compile(r"\..+\.[0-9]+-[0-9a-f]{8}\.part")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make an empty folder in the temporary folder of the system, and remove it after use."""
    folder, descriptor = make_scratch()
    try:
        yield folder
    finally:
        remove_scratch(folder, descriptor)


def make_scratch() -> tuple[Path, int]:
    """Make a folder as `scratch_folder` does; also return what `remove_scratch` needs.

    It stays if nobody removes it: a forked process must not remove what is not its own.
    """
    _remove_leftovers(tempfile.gettempdir())
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        # Nobody may see the mark before it is locked.
        new = outer / f"{_MARK}.new"
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        _hold(descriptor)
        new.rename(outer / _MARK)
        folder = outer / "w"
        folder.mkdir(mode=0o700)
    except BaseException:
        remove(outer)
        raise
    return folder, descriptor


def remove_scratch(folder: Path, descriptor: int) -> None:
    with uninterrupted():
        remove(folder.parent)
        os.close(descriptor)


def _remove_leftovers(temporary: str) -> None:
    """Remove what killed runs of this user left."""
    with suppress(OSError), os.scandir(temporary) as entries:
        for entry in entries:
            if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        _remove_if_dead(Path(entry.path), Path(entry.path, _MARK))


def open_part(target: Path) -> BufferedRandom:
    """Open a new file beside the one that it is to replace. Its name is `.NAME.PID-HEX.part`.

    Close it after the replacement: it is locked until then.
    """
    clear_parts(target.parent)
    while True:
        file = _new_part(target).open("x+b")
        _hold(file.fileno())
        # Another run may have taken it for a dead one's before it was locked.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


@contextmanager
def staging_folder(parent: Path, name: str) -> Iterator[Path]:
    """Make a folder beside those that its contents are to join, and remove what is left of it."""
    parent.mkdir(parents=True, exist_ok=True)
    clear_parts(parent)
    folder, descriptor = _locked_folder(parent / name)
    try:
        yield folder
    finally:
        with uninterrupted():
            if folder.exists():
                remove(folder)
            os.close(descriptor)


def _locked_folder(target: Path) -> tuple[Path, int]:
    while True:
        folder = _new_part(target)
        folder.mkdir()
        # As above: another run may have removed it.
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            _hold(descriptor)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


def clear_parts(folder: Path) -> None:
    """Remove the parts that killed runs left in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name) and not entry.is_symlink():
                with suppress(OSError):
                    _remove_if_dead(Path(entry.path), Path(entry.path))


def _hold(descriptor: int) -> None:
    # Where the file system has no locks, nobody can take a lock, and nothing is removed.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _new_part(target: Path) -> Path:
    # From the source that `secrets` uses, whose import takes longer than all of this.
    return target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.part")


def _remove_if_dead(place: Path, locked: Path) -> None:
    descriptor = os.open(locked, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if place.is_dir():
            remove(place)
        else:
            place.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
