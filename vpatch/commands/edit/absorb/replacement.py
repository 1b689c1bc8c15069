"""Changed patches take their places one by one. What a killed run leaves, the next one does."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from vpatch.commands.edit.absorb.record import (
    PENDING,
    PendingPatch,
    PendingSeries,
    SeriesRecord,
)
from vpatch.errors import UsageError
from vpatch.git import checkout as git
from vpatch.util.digest import digest_of_files
from vpatch.util.directories import remove, replace_dir
from vpatch.util.scratch import staging_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context

_BYTECODE = "__pycache__"


def write_pending(
    context: Context,
    folder: Path,
    record: SeriesRecord,
    new: Mapping[str, Path],
    patches: Mapping[str, Patch],
    tip: str,
) -> SeriesRecord:
    """Keep the new folders of patches in the checkout, and note that they are to be used.

    Args:
        context: what knows which patches are trusted.
        folder: the checkout.
        record: what it is for.
        new: the new folders, by the ids.
        patches: all patches of the series, as they will be.
        tip: the commit of the last one.
    """
    room = folder / PENDING
    remove(room)
    room.mkdir()
    folders: dict[str, PendingPatch] = {}
    for name, place in new.items():
        shutil.copytree(place, room / name, symlinks=True)
        target = context.library.patches[name]
        folders[name] = PendingPatch(
            old=_digest(target),
            new=_digest(place),
            trusted=context.trust.state(target) == "trusted",
        )
    digests = {name: one.digest for name, one in patches.items()}
    pending = PendingSeries(folders=folders, patches=digests, tip=tip)
    noted = record.model_copy(update={"pending": pending})
    noted.write(folder)
    return noted


def finish(context: Context, folder: Path, record: SeriesRecord) -> SeriesRecord:
    """Put what is pending into its place, and the commits of the new series into the checkout.

    Raises:
        UsageError: somebody changed one of the patches meanwhile.
    """
    pending = record.pending
    if pending is None:
        return record
    for name, one in pending.folders.items():
        target = context.library.patches.get(name)
        digest = None if target is None else _digest(target)
        if target is None or digest not in {one.old, one.new}:
            raise UsageError(
                f"the patch {name!r} changed while a refresh was to replace it",
                where=str(target or folder),
                hint=f"its new state is in {folder / PENDING / name}: take from it what you need, "
                "and run vpatch edit --abort",
                code="edit.patch-changed",
            )
        if digest != one.new:
            with staging_folder(target.parent, "refreshing") as staging:
                shutil.copytree(folder / PENDING / name, staging / name, symlinks=True)
                replace_dir(staging / name, target, staging / "before")
        if one.trusted:
            context.trust_own(target)
    git.put_head_at(folder, pending.tip)
    done = record.model_copy(
        update={"pending": None, "patches": pending.patches, "tip": pending.tip}
    )
    done.write(folder)
    remove(folder / PENDING)
    return done


def _digest(folder: Path) -> str:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _BYTECODE not in path.parts
    }
    return digest_of_files(files)
