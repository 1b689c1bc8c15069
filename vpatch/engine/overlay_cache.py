"""The overlays of a cache: which there are, which are in use, and how to remove one."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.engine.kept_overlay import KEPT, overlay_folder, packages_of
from vpatch.engine.removal import removing
from vpatch.errors import UsageError
from vpatch.util.disk_size import disk_size
from vpatch.util.filelock import try_lock

if TYPE_CHECKING:
    from vpatch.progress import Progress


@dataclass(frozen=True)
class OverlayEntry:
    """An overlay as `vpatch cache list` shows it."""

    name: str
    size: int
    is_kept: bool


def list_overlays(cache: Path) -> list[OverlayEntry]:
    """Return all complete overlays of a cache."""
    folders = sorted((cache / "overlays").glob("overlay-*"))
    return [OverlayEntry(one.name, disk_size(one), (one / KEPT).exists()) for one in folders]


def remove_overlay(cache: Path, name: str, progress: Progress, *, named: bool) -> int:
    """Remove an overlay that nobody uses; return the bytes freed.

    One that is kept for somebody's file goes only if it is `named`.
    """
    folder = overlay_folder(cache, name)
    if (folder / KEPT).exists() and not named:
        progress.note(f"{name} stays, as --print-env printed its path: name it to remove it")
        return 0
    lock = try_lock(cache / "locks" / name, exclusive=True)
    if lock is None:
        progress.note(f"{name} is in use and stays")
        return 0
    with lock:
        user = _process_with(folder)
        if user is not None:
            progress.note(f"{name} is in use by process {user} and stays")
            return 0
        size = disk_size(folder)
        with removing(folder):
            staging = cache / "staging" / name
            staging.parent.mkdir(exist_ok=True)
            # Out of sight first, so that a kill half-way leaves no half overlay there.
            folder.rename(staging)
            shutil.rmtree(staging)
    return size


def _process_with(folder: Path) -> int | None:
    """Return a process that has an overlay in its environment: daemons give up locks.

    Other systems than Linux do not say it; there only the lock tells.
    """
    wanted = os.fsencode(packages_of(folder))
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it ended, or belongs to somebody else
            if wanted in file.read_bytes():
                return int(file.parent.name)
    return None


def refuse_colon(cache: Path) -> None:
    """Refuse a cache whose path PYTHONPATH cannot name.

    Raises:
        UsageError: it has a colon.
    """
    if os.pathsep in str(cache):
        raise UsageError(
            f"PYTHONPATH cannot name a folder with {os.pathsep} in its path",
            where=str(cache),
            hint="name another folder with VPATCH_CACHE_DIR",
            code="engine.colon-in-path",
        )
