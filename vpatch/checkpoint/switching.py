"""Several files of a checkpoint, exchanged at one moment.

No system call renames two files at once. So each file becomes a link through one common link, and
that one is exchanged. While a file is such a link, its content is the old one or the new one, as
that of all others is. At the end, each link becomes a file again.

New files are announced before they are written. A run that does not reach its exchange, as it was
killed, interrupted or had an error, leaves none of them.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.checkpoint.folder import read_json
from vpatch.checkpoint.writing import (
    ORIGINAL,
    alone_in,
    numbered,
    part_of,
    replacing,
    sync_folder,
)
from vpatch.util.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_BEFORE = ".vpatch-before"
_AFTER = ".vpatch-after"
_LINK = ".vpatch-current"
_NEXT = ".vpatch-next"
# The names of the files that a run makes.
_NEW = ".vpatch-new"
# In the folder of the new files: which shards nothing leads to any more.
_SUPERSEDED = ".superseded"


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Have a checkpoint alone. After an error or Ctrl-C it is as before, or as `switch` made it.

    Raises:
        UsageError: there is no such folder.
        CheckpointError: what a killed run left there is damaged.
        CheckpointUnavailableError: another vpatch writes to it, or it cannot be written to.
    """
    with alone_in(folder):
        settle(folder)
        try:
            yield
        except BaseException:
            # The next run does it again where the disk does not let this one.
            with uninterrupted(), suppress(OSError):
                settle(folder)
            raise


def announce(folder: Path, names: Iterable[str]) -> None:
    """Name the files that are to be made, before the first is: without a `switch`, they go again.

    A file that is there already is not new, and stays.
    """
    new = [name for name in names if not os.path.lexists(folder / name)]
    with replacing(folder / _NEW) as file:
        file.write(_note(new))


def switch(folder: Path, documents: Mapping[str, bytes], superseded: Sequence[str]) -> None:
    """Give files new content, all at one moment; then rename superseded shards to NAME.orig.

    The files must exist. A run that is killed leaves all of them old or all of them new, and
    `settle` cleans up after it. Ctrl-C waits.
    """
    with uninterrupted():
        _write(folder / _BEFORE, {name: (folder / name).read_bytes() for name in documents})
        _write(folder / _AFTER, {**documents, _SUPERSEDED: _note(superseded)})
        (folder / _LINK).symlink_to(_BEFORE)
        for name in documents:
            new = part_of(folder / name)
            new.symlink_to(f"{_LINK}/{name}")
            new.replace(folder / name)
        sync_folder(folder)
        (folder / _NEXT).symlink_to(_AFTER)
        (folder / _NEXT).replace(folder / _LINK)
        sync_folder(folder)
        settle(folder)


def settle(folder: Path) -> None:
    """Finish what a `switch` left, or undo what did not come so far: nothing, if there is nothing.

    Raises:
        CheckpointError: a note is damaged.
        OSError: it cannot be written.
    """
    link = folder / _LINK
    current = str(link.readlink()) if link.is_symlink() else None
    if current != _AFTER and (folder / _NEW).exists():
        for name in _names(folder / _NEW):
            _remove(part_of(folder / name), folder / name)
    _remove(folder / _NEW, part_of(folder / _NEW))
    if current in {_BEFORE, _AFTER}:
        _end_links(folder, folder / current)
        link.unlink()
    _remove(folder / _NEXT)
    for name in (_BEFORE, _AFTER):
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)


def _remove(*paths: Path) -> None:
    for path in paths:
        # A disk that cannot be written to refuses to remove even what is not there.
        if os.path.lexists(path):
            path.unlink()


def _end_links(folder: Path, current: Path) -> None:
    for path in sorted(current.iterdir()):
        target = folder / path.name
        if part_of(target).is_symlink():
            part_of(target).unlink()
        if path.name == _SUPERSEDED:
            for name in _names(path):
                # Another run may have renamed it before it was killed.
                with suppress(FileNotFoundError):
                    places = numbered(folder / f"{name}{ORIGINAL}")
                    (folder / name).rename(next(p for p in places if not os.path.lexists(p)))
        elif target.is_symlink() and target.readlink() == Path(_LINK, path.name):
            # What the link leads to takes its place: that needs no space on the disk.
            path.replace(target)
    sync_folder(folder)


def _note(names: Iterable[str]) -> bytes:
    return json.dumps({"names": [*names]}).encode()


def _names(note: Path) -> list[str]:
    """Return the names of files of the folder itself: a checkpoint may come from anybody."""
    names = read_json(note).get("names")
    plain = names if isinstance(names, list) else []
    return [
        one
        for one in plain
        if isinstance(one, str) and one not in {"", ".."} and one == Path("/", one).name
    ]


def _write(folder: Path, documents: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in documents.items():
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    sync_folder(folder)
