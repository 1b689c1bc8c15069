"""Several files of a checkpoint, exchanged at one moment.

No system call renames two files at once. So each file becomes a link through one common link, and
that one is exchanged. While a file is such a link, its content is the old one or the new one, as
that of all others is. At the end, each link becomes a file again.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.checkpoint.writing import replacing, sync_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BEFORE = ".vpatch-before"
_AFTER = ".vpatch-after"
_LINK = ".vpatch-current"
_NEXT = ".vpatch-next"
# In the folder of the new files: which shards nothing leads to any more.
_SUPERSEDED = ".superseded"
ORIGINAL = ".orig"


def switch(folder: Path, documents: Mapping[str, bytes], superseded: Sequence[str]) -> None:
    """Give files new content, all at one moment; then rename superseded shards to NAME.orig.

    The files must exist. A run that is killed leaves all of them old or all of them new, and
    `settle` cleans up after it.
    """
    _write(folder / _BEFORE, {name: (folder / name).read_bytes() for name in documents})
    notes = json.dumps(list(superseded)).encode()
    _write(folder / _AFTER, {**documents, _SUPERSEDED: notes})
    (folder / _LINK).symlink_to(_BEFORE)
    for name in documents:
        new = folder / f".{name}.vpatch"
        if new.is_symlink():
            new.unlink()
        new.symlink_to(f"{_LINK}/{name}")
        new.replace(folder / name)
    sync_folder(folder)
    (folder / _NEXT).symlink_to(_AFTER)
    (folder / _NEXT).replace(folder / _LINK)
    sync_folder(folder)
    settle(folder)


def settle(folder: Path) -> None:
    """Finish what a killed `switch` left: nothing, where there is nothing."""
    link = folder / _LINK
    if link.is_symlink():
        current = folder / link.readlink()
        for path in sorted(current.iterdir()):
            target = folder / path.name
            new = folder / f".{path.name}.vpatch"
            if new.is_symlink():
                new.unlink()
            if path.name == _SUPERSEDED:
                for name in json.loads(path.read_bytes()):
                    # Another run may have renamed it before it was killed.
                    with suppress(FileNotFoundError):
                        (folder / name).rename(_free(folder / f"{name}{ORIGINAL}"))
            elif target.is_symlink() and target.readlink() == Path(_LINK, path.name):
                with replacing(target) as file:
                    file.write(path.read_bytes())
        sync_folder(folder)
        link.unlink()
    (folder / _NEXT).unlink(missing_ok=True)
    for name in (_BEFORE, _AFTER):
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)


def _free(path: Path) -> Path:
    number, free = 1, path
    while free.exists() or free.is_symlink():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def _write(folder: Path, documents: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in documents.items():
        with (folder / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    sync_folder(folder)
