"""The project that a command is about: found upwards from the current folder, as git does it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.declare.settings import settings_file
from vpatch.library.patch import DECLARATION

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Project:
    """`folder` is absolute; `marker` is what makes it a project, None where nothing does.

    `passed` are markers further down the path that were not used, as they belong to somebody else.
    """

    folder: Path
    marker: Path | None
    passed: tuple[Path, ...] = ()


def find_project(start: Path) -> Project:
    """Find the nearest project at `start` (absolute) or above it; without any, `start` itself.

    A folder is a project if it has settings (`vpatch.toml`, or `[tool.vpatch]` in
    `pyproject.toml`), or patches (`patches/*/patch.yaml`). The search ends at the home folder, and
    elsewhere at the root. What lies above `start` must belong to the user, to root, or to the owner
    of `start`: anybody may write `/tmp/vpatch.toml`.
    """
    passed: list[Path] = []
    for folder in _upwards(start):
        marker = _marker(folder, start)
        if marker is None:
            continue
        if folder == start or marker.stat().st_uid in {os.geteuid(), 0, start.stat().st_uid}:
            return Project(folder, marker, tuple(passed))
        passed.append(marker)
    return Project(start, None, tuple(passed))


def _upwards(start: Path) -> Iterator[Path]:
    home = _home()
    for folder in (start, *start.parents):
        yield folder
        if folder == home:
            return


def _marker(folder: Path, start: Path) -> Path | None:
    settings = settings_file(folder)
    if settings is not None:
        return settings
    if folder != start and folder in {_home(), Path(folder.anchor)}:
        return None  # patches that lie there by chance would claim every folder of the user
    patches = folder / "patches"
    try:
        return patches if next(patches.glob(f"*/{DECLARATION}"), None) else None
    except OSError:
        return None


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except RuntimeError:  # a user without a home
        return None
