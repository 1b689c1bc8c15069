"""A local folder as a source."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, UsageError
from vpatch.git import remote
from vpatch.git.files import EXECUTABLE, REGULAR, SYMLINK, SourceFile
from vpatch.source.manifest import FileRecord, record_of
from vpatch.source.tree import LOCK_FILE
from vpatch.util.untrusted import LARGEST_FILE, plain_path, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LISTED = stat.S_IROTH | stat.S_IXOTH
_NO_SOURCE = frozenset({".git", "__pycache__"})
_IN_PLACE: Mapping[str, str] = MappingProxyType({})


def scan(
    folder: Path, paths: Sequence[str] | None = None, places: Mapping[str, str] = _IN_PLACE
) -> list[FileRecord]:
    """Digest a folder's source files, or those of `paths`.

    `places` says where in the folder a path's file lies, for those that lie elsewhere.
    """
    return [record_of(file) for file in _files(folder, paths, places)]


def reparse(
    folder: Path, records: list[FileRecord], places: Mapping[str, str] = _IN_PLACE
) -> Iterator[SourceFile]:
    """Yield the files of an earlier scan; fail if one has changed since."""
    for record in records:
        file = _file(folder, record.path, places)
        if file is None or record_of(file) != record:
            raise UnavailableError(
                f"{record.path} changed while vpatch read the folder",
                where=str(folder),
                hint="run the command again when nothing writes there",
                code="source.changed-while-read",
            )
        yield file


def is_private(folder: Path, records: list[FileRecord]) -> bool:
    """Whether other users cannot read all of a folder; a copy must not let them."""
    parents = {(folder / record.path).parent for record in records}
    files = (folder / record.path for record in records if record.mode != SYMLINK)
    return any(path.stat().st_mode & _LISTED != _LISTED for path in {folder, *parents}) or any(
        not path.stat().st_mode & stat.S_IROTH for path in files
    )


def _files(
    folder: Path, paths: Sequence[str] | None, places: Mapping[str, str]
) -> Iterator[SourceFile]:
    for path in _paths(folder) if paths is None else paths:
        _check(path, folder)
        file = _file(folder, path, places)
        if file:
            yield file


def _paths(folder: Path) -> list[str]:
    """In a git work tree what git does not ignore; elsewhere, or if it ignores all, everything."""
    tracked = remote.worktree_files(folder)
    if tracked:
        # git is told to ignore the lock of a checkout, which says what the checkout carries.
        locks = [LOCK_FILE] if (folder / LOCK_FILE).is_file() else []
        return sorted({*tracked, *locks})
    paths = []
    for parent, folders, files in os.walk(folder):
        # Here and not at the end: who walks on gets too deep itself.
        if parent != str(folder):
            _check(os.path.relpath(parent, folder), folder)
        names = files + [name for name in folders if (Path(parent) / name).is_symlink()]
        folders[:] = [name for name in folders if name not in _NO_SOURCE]
        paths += [os.path.relpath(f"{parent}/{name}", folder) for name in names]
    return sorted(path for path in paths if path.rpartition("/")[2] not in _NO_SOURCE)


def _check(path: str, folder: Path) -> None:
    try:
        plain_path(path)
    except ValueError as error:
        raise UsageError(
            f"vpatch cannot use a file in this folder: {error}",
            where=str(folder),
            hint="rename or remove it, or name another folder",
            code="source.unusable-file",
        ) from error


def _refuse_behind_link(folder: Path, parent: Path) -> None:
    """Refuse a file in a folder that is a link: what git lists may have been made up."""
    while parent not in {folder, parent.parent}:
        if parent.is_symlink():
            raise UsageError(
                "is a link to a folder, and git tracks files below it",
                where=str(parent),
                hint="remove it from the index of the repository (git rm --cached), or the link",
                code="source.unusable-file",
            )
        parent = parent.parent


def _file(folder: Path, relative: str, places: Mapping[str, str]) -> SourceFile | None:
    path = folder / places.get(relative, relative)
    _refuse_behind_link(folder, path.parent)
    try:
        if path.is_symlink():
            return SourceFile(relative, SYMLINK, os.fsencode(path.readlink()))
        if not path.is_file():
            return None  # a submodule, a socket, or a file that git tracks and the user removed
        mode = EXECUTABLE if path.stat().st_mode & 0o100 else REGULAR
        return SourceFile(relative, mode, read_file(path, LARGEST_FILE))
    except OSError as error:
        raise UsageError(
            f"vpatch cannot read this file of the source: {error.strerror}",
            where=str(path),
            hint="correct the file's permissions, or remove it",
            code="source.unusable-file",
        ) from error
