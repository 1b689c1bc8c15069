"""What tells that files are unchanged without reading them: sizes, times and inodes.

A change of a file's content sets its ctime, which no program can set by itself.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BYTECODE = "__pycache__"
# Of a folder on a Python's path, what decides which vllm it imports.
_DECIDING = (".pth", ".egg-link")
_CUSTOMISING = ("sitecustomize", "usercustomize", "__editable__")
_OF_INFO = ("METADATA", "RECORD", "direct_url.json")


def state_of_folder(folder: Path) -> str:
    """Return a digest of the states of all files below a folder, bytecode aside."""
    digest = hashlib.sha256()
    for name, path in sorted(files_below(folder)):
        digest.update(f"{name}\0{_state(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def state_of_environment(python: Path, path: Iterable[str]) -> str:
    """Return a digest of what decides which vllm a Python imports, the package itself aside.

    Args:
        python: its path as it is called.
        path: the folders in which it looks.
    """
    watched = [str(python), os.path.realpath(python), f"{python.parent.parent}/pyvenv.cfg"]
    for place in path:
        watched += [place, *_deciding_paths(place)]
    # Of a folder, only that it is there.
    rows = (f"{one}\0{'folder' if Path(one).is_dir() else _state(one)}\n" for one in watched)
    return hashlib.sha256("".join(rows).encode(errors="surrogateescape")).hexdigest()


def files_below(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each file below a folder, bytecode aside: its name from there, and its path.

    Links are followed, but none to a folder that was met before.
    """
    met = {os.path.realpath(folder)}
    waiting = [("", str(folder))]
    while waiting:
        prefix, place = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if not entry.is_dir():
                    yield f"{prefix}{entry.name}", entry.path
                elif entry.name != BYTECODE:
                    if entry.is_symlink():
                        real = os.path.realpath(entry.path)
                        if real in met:
                            continue
                        met.add(real)
                    waiting.append((f"{prefix}{entry.name}/", entry.path))


def _deciding_paths(place: str) -> list[str]:
    """Return what is in a folder of the path and decides; the times of the folder say too much."""
    try:
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError:
        return []  # a folder that is not there, or an archive
    paths: list[str] = []
    for name in names:
        if name.endswith(_DECIDING) or name.startswith(_CUSTOMISING):
            paths.append(f"{place}/{name}")
        elif name.lower().startswith("vllm"):
            paths.append(f"{place}/{name}")
            if name.endswith(".dist-info"):
                paths += [f"{place}/{name}/{file}" for file in _OF_INFO]
    return paths


def _state(path: str) -> str:
    try:
        stat = os.stat(path)  # noqa: PTH116 - thousands of files, and Path takes twice as long
    except OSError:
        return "absent"
    return f"{stat.st_mode} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
