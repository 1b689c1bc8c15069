"""Where changes come from: diffs, and the commits of a repository.

A further source is a function that returns `DiffedChange`s, for `undo.fitted`. If it knows whole
files instead, it takes a `Stack` and puts its changes on it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from vpatch.changes.change import DiffedChange
from vpatch.changes.difftext import read_diffs
from vpatch.changes.message import commit_message, read_message
from vpatch.errors import ConflictingOptionsError, UsageError, VpatchError, combine
from vpatch.git.history import commits_of_range
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.changes.change import SourceChange

_SUFFIXES = (".patch", ".diff")
SERIES = "series"
_DIGITS = re.compile(r"([0-9]+)")


def from_diffs(path: Path) -> list[DiffedChange]:
    """Read a diff, a mailbox of patches, or a folder of either, each on top of the one before.

    The files of a folder are taken in the order of a quilt `series`, or of their names: 2 comes
    before 10.

    Raises:
        UsageError: there is no diff.
    """
    changes: list[DiffedChange] = []
    errors: list[VpatchError] = []
    for file in _files(path):
        try:
            changes += _of_file(file)
        except VpatchError as error:
            errors.append(error)
    if errors:
        raise combine(errors)
    return changes


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    series = path / SERIES
    if series.is_file():
        lines = series.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(" #")[0].split() for line in lines if line[:1] != "#"]
        turned = [name[0] for name in names if "-R" in name[1:]]
        if turned:
            raise UsageError(
                f"the series takes out what a diff changes (-R): {', '.join(turned)}",
                where=str(series),
                hint="write what it takes out as a diff of its own, as interdiff or git diff -R do",
                code="importing.unsupported",
            )
        return [path / name[0] for name in names if name]
    files = diffs_in(path)
    files.sort(key=lambda file: _in_order(file.name))
    if not files:
        raise UsageError(
            "the folder has no *.patch and no *.diff",
            where=str(path),
            hint="name the folder with the diffs, or a tree of sources that you changed",
            code="importing.no-diff",
        )
    return files


def diffs_in(folder: Path) -> list[Path]:
    """Return the diffs that lie in a folder."""
    return [file for file in folder.iterdir() if file.suffix in _SUFFIXES and file.is_file()]


def _in_order(name: str) -> list[tuple[int, str]]:
    """A key by which 2-b.patch comes before 10-a.patch: numbers by their size, the rest as text."""
    parts = [part.lstrip("0") if part.isdecimal() else part for part in _DIGITS.split(name)]
    # Of numbers without zeros in front, the longer one is the larger one.
    return [(len(part) if n % 2 else 0, part) for n, part in enumerate(parts)] + [(0, name)]


def _of_file(file: Path) -> Iterator[DiffedChange]:
    for diffs in read_diffs(read_source(file, hint="correct the path"), str(file)):
        yield DiffedChange(diffs.files, read_message(diffs.prose), str(file), file.stem)


def read_source(file: Path, hint: str) -> bytes:
    """Read a file that the user names.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return read_file(file, LARGEST_BESIDE)
    except OSError as error:
        what, where = f"cannot be read: {error.strerror}", str(file)
        raise UsageError(what, where=where, hint=hint, code="importing.unreadable") from error


def from_range(repository: Path, commits: str) -> list[DiffedChange]:
    """Read a range of commits of a local repository, one change a commit.

    Raises:
        UsageError: the range has a merge.
    """
    listed = commits_of_range(repository, commits)
    merges = [commit.id[:12] for commit in listed if len(commit.parents) > 1]
    if merges:
        raise UsageError(
            f"{commits} has merges: {', '.join(merges)}",
            where=str(repository),
            hint="rebase the commits to one line (git rebase), or import the ranges on both sides",
            code="importing.merge",
        )
    changes: list[DiffedChange] = []
    for commit in listed:
        where = f"{repository}: {commit.id[:12]}"
        message = commit_message(commit.message)
        if commit.diff.strip():
            files = [file for text in read_diffs(commit.diff, where) for file in text.files]
            changes.append(DiffedChange(tuple(files), message, where, commit.id[:12]))
    return changes


def distinct_ids(changes: list[SourceChange], asked: str | None = None) -> list[SourceChange]:
    """Give each change an id of its own; `asked` is what the user wants a single one to have.

    Raises:
        UsageError: there are several, and one id.
    """
    if asked is not None:
        if len(changes) != 1:
            raise ConflictingOptionsError(
                f"--id names one patch, and the source has {len(changes)} changes",
                hint="leave it out, or import them one by one",
            )
        return [replace(changes[0], id=asked)]
    distinct: dict[str, SourceChange] = {}
    for change in changes:
        name, number = change.id, 2
        while name in distinct:
            name, number = f"{change.id}-{number}", number + 1
        distinct[name] = replace(change, id=name)
    return list(distinct.values())
