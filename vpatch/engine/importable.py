"""Which files of a package an import would take, by the rules of Python's own importer."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CACHE = "__pycache__"
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class PackageFiles:
    """What is in a package, by paths that begin with its name.

    Attributes:
        importable: the files that an import could take, of any name.
        hidden: files that no import takes, though they look so, and why; in sentences without a
            subject. What an import takes in their place is not that source.
        links: files that lie elsewhere, outside of the folder of packages, and where.
    """

    importable: list[str] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def files_of_package(package: Path, suffixes: Sequence[str]) -> PackageFiles:
    """Look at all files of a package. Nothing is opened but folders.

    Args:
        package: the folder, which must be below the folder of packages.
        suffixes: of extension modules, such as `.abi3.so`.

    Raises:
        OSError: a folder cannot be read.
    """
    files = PackageFiles()
    endings = tuple(sorted({*suffixes, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES}, key=len))[::-1]
    site = package.parent.resolve()
    if package.is_symlink():
        files.hidden[package.name] = f"is a link to {package.readlink()}"
    waiting = [package]
    while waiting:
        folder = waiting.pop()
        place = folder.relative_to(package.parent).as_posix()
        names: dict[str, list[str]] = {}
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                path = f"{place}/{entry.name}"
                why = _why_odd(entry)
                if why:
                    files.hidden[path] = why
                elif entry.is_dir():
                    waiting.append(folder / entry.name)
                    names.setdefault(entry.name, []).append(entry.name)
                    continue
                stem = _stem(entry.name, endings)
                # In the folder of bytecode, the names of modules have the tag of a Python.
                if stem is None or (folder.name == _CACHE and "." in stem):
                    continue
                files.importable.append(path)
                names.setdefault(stem, []).append(entry.name)
                if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(site):
                    files.links[path] = os.path.realpath(entry.path)
        finder = _finder(folder, suffixes)
        for stem, candidates in names.items():
            # No import finds a name with a dot.
            if len(candidates) > 1 and "." not in stem:
                files.hidden.update(_losers(finder, place, stem, candidates))
    files.importable.sort()
    return files


def _why_odd(entry: os.DirEntry[str]) -> str:
    """Say why nothing can be imported of a name in a folder, or where it leads."""
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if stat.S_ISDIR(mode):
        return (
            f"is a link to the folder {Path(entry.path).readlink()}" if entry.is_symlink() else ""
        )
    return next((f"is {kind}, and not a file" for is_kind, kind in _KINDS if is_kind(mode)), "")


def _stem(name: str, endings: Iterable[str]) -> str | None:
    """Return the name of the module that a file could be."""
    return next((name[: -len(one)] for one in endings if name.endswith(one)), None)


def _finder(folder: Path, suffixes: Sequence[str]) -> FileFinder:
    return FileFinder(
        str(folder),
        (ExtensionFileLoader, list(suffixes)),
        (SourceFileLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )


def _losers(finder: FileFinder, place: str, stem: str, candidates: Sequence[str]) -> dict[str, str]:
    """Return the sources and extensions of a name that an import does not take."""
    spec = finder.find_spec(stem)
    taken = os.path.relpath(spec.origin, finder.path) if spec and spec.origin else ""
    return {
        f"{place}/{name}": f"is hidden by {place}/{taken or 'a folder'}"
        for name in candidates
        # Bytecode beside its source is never taken, and a folder without __init__ comes last.
        if name not in {taken, stem} and not name.endswith(tuple(BYTECODE_SUFFIXES))
    }
