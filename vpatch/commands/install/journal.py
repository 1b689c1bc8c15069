"""Changes of several files at once: prepared aside, then done; after a kill, they are finished.

All that is new is first written to a folder beside the metadata, in the same file system. A journal
there lists the steps. Before the journal is there, nothing has changed, and what is aside is
garbage. From then on each step is a rename or a removal. The next command does them again from the
first one on: one that was done has nothing left to do.

The way back of an install is such a folder as well. `install` prepares it under another name, with
its journal. So the way back needs no more space: one rename begins it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from vpatch.util.directories import remove
from vpatch.util.files import replace_file
from vpatch.util.uninterrupted import uninterrupted
from vpatch.util.untrusted import MEGABYTE, parse_json, plain_path, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    Step = dict[str, str]

ASIDE = "vpatch.partial"
JOURNAL = "journal.json"
_LARGEST = 16 * MEGABYTE
_STEPS = ({"put", "from"}, {"remove"}, {"remove-folder"})
_SHOWN = 60


class Journal:
    """Steps to change files below `site`; `info` is the folder of the metadata there."""

    def __init__(self, site: Path, info: Path) -> None:
        self._site = site
        self._aside = info / ASIDE
        self._steps: list[Step] = []

    def put(self, path: str, content: bytes) -> None:
        """Write a file; it gets the mode and the owner of the one whose place it takes."""
        staged = self._stage(path)
        staged.write_bytes(content)
        target = self._site / path
        with suppress(FileNotFoundError):
            before = target.stat()
            staged.chmod(stat.S_IMODE(before.st_mode))
            if os.geteuid() == 0:
                os.chown(staged, before.st_uid, before.st_gid)

    def put_link(self, path: str, source: Path) -> None:
        """Put the very file of another place here too, with its times."""
        staged = self._stage(path)
        try:
            os.link(source, staged)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}:
                raise
            shutil.copy2(source, staged)

    def add(self, step: Step) -> None:
        self._steps.append(step)

    def remove(self, path: str) -> None:
        self.add({"remove": path})

    def remove_folder(self, path: str) -> None:
        """Remove a folder if it is empty then."""
        self.add({"remove-folder": path})

    def commit(self) -> None:
        """Do all steps. A kill from here on is finished by `recover`."""
        refuse_unwritable(self._site, self._aside.parent, self._steps)
        self._aside.mkdir(exist_ok=True)
        with uninterrupted():
            replace_file(self._aside / JOURNAL, journal_text(self._steps))
            _do(self._site, self._aside, self._steps)

    def discard(self) -> None:
        """Remove what was prepared, if it was not committed."""
        if not (self._aside / JOURNAL).exists():
            remove(self._aside)

    def _stage(self, path: str) -> Path:
        self._aside.mkdir(exist_ok=True)
        name = f"{len(self._steps)}"
        self.add({"put": path, "from": name})
        return self._aside / name


@contextmanager
def journal_of(site: Path, info: Path) -> Iterator[Journal]:
    """Open a journal that the end of the block commits; an error leaves nothing of it."""
    journal = Journal(site, info)
    try:
        yield journal
        journal.commit()
    finally:
        journal.discard()


def journal_text(steps: Sequence[Step]) -> str:
    return json.dumps(steps)


def refuse_unwritable(site: Path, info: Path, steps: Sequence[Step]) -> None:
    """Refuse what would stop the steps half-way, as far as it can be known before.

    Raises:
        OSError: a folder is read-only or in another file system, or a folder has a file's name.
    """
    for path in sorted({step.get("put", step.get("remove")) or "" for step in steps}):
        folder = next(one for one in (site / path).parents if one.exists())
        if (site / path).is_dir() and path and not (site / path).is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(site / path))
        _refuse_folder(folder, site / path)
        if folder.stat().st_dev != info.stat().st_dev:
            raise OSError(errno.EXDEV, "is in another file system", str(folder))


def _refuse_folder(folder: Path, *files: Path) -> None:
    """Refuse a folder in which this user may not rename or remove some files."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    status, user = folder.stat(), os.geteuid()
    if status.st_mode & stat.S_ISVTX and user not in {0, status.st_uid}:
        for file in files:
            if os.path.lexists(file) and file.lstat().st_uid != user:
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(file))


def begin(site: Path, info: Path, prepared: Path, steps: Sequence[Step]) -> None:
    """Do steps whose files are in a folder in `info`, which has their journal; that folder goes.

    Nothing is written. A kill is finished by `recover`.
    """
    refuse_unwritable(site, info, steps)
    # All that is in it is moved or removed.
    for folder in (prepared, *(one for one in prepared.rglob("*") if one.is_dir())):
        _refuse_folder(folder, *folder.iterdir())
    with uninterrupted():
        prepared.rename(info / ASIDE)
        _do(site, info / ASIDE, steps)


def is_interrupted(info: Path) -> bool:
    """Whether a killed command left steps to do."""
    return (info / ASIDE / JOURNAL).exists()


def recover(site: Path, info: Path) -> bool:
    """Finish what a killed command began, or remove what it had prepared.

    Returns:
        Whether there were steps to finish.

    Raises:
        OSError: it cannot be finished.
        ValueError: the journal is damaged.
    """
    aside = info / ASIDE
    if is_interrupted(info):
        with uninterrupted():
            _do(site, aside, _read(aside / JOURNAL))
        return True
    if aside.is_dir():
        remove(aside)
    else:
        aside.unlink(missing_ok=True)
    return False


def _read(journal: Path) -> list[Step]:
    steps = parse_json(read_file(journal, _LARGEST))
    if not isinstance(steps, list):
        raise ValueError("it is not a list of steps")  # noqa: TRY004 - as all damage
    for step in steps:
        if not isinstance(step, dict) or {*step} not in _STEPS:
            raise ValueError(f"{str(step)[:_SHOWN]!r} is not a step")
        for path in step.values():
            if not isinstance(path, str):
                raise ValueError(f"{str(path)[:_SHOWN]!r} is not a path")  # noqa: TRY004 - as above
            plain_path(path)
    return steps


@contextmanager
def alone(info: Path, *, reading: bool = False) -> Iterator[None]:
    """Wait until no other vpatch changes the same distribution, nor reads it, if this one writes.

    The lock is on the folder itself, so that no file of a lock is left there.
    """
    descriptor = os.open(info, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        # A file system may have no locks, and can be read anyway.
        with suppress(OSError) if reading else nullcontext():
            fcntl.flock(descriptor, fcntl.LOCK_SH if reading else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _do(site: Path, aside: Path, steps: Sequence[Step]) -> None:
    for step in steps:
        if "put" in step:
            staged, target = aside / step["from"], site / step["put"]
            if staged.exists():
                if not target.parent.is_dir():
                    target.parent.mkdir(parents=True)
                staged.replace(target)
        elif "remove" in step:
            (site / step["remove"]).unlink(missing_ok=True)
        else:
            with suppress(OSError):  # somebody has put a file there
                (site / step["remove-folder"]).rmdir()
    (aside / JOURNAL).unlink()
    remove(aside)
