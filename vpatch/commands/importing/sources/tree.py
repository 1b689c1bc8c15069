"""A tree that somebody changed, compared with the release that it came from."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
from collections import Counter
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, LeftAside, Message, SourceChange
from vpatch.changes.message import id_of
from vpatch.changes.paths import aside
from vpatch.commands.importing.sources.source import SERIES, diffs_in
from vpatch.errors import UsageError
from vpatch.source.tree import LOCK_FILE
from vpatch.util.plural import listed
from vpatch.util.unified_diff import unified_diff
from vpatch.util.untrusted import LARGEST_FILE, plain_path, read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.changes.stack import Stack

_MADE = {"__pycache__", ".git"}
# What a build writes beside the sources.
BUILT = (".so", ".pyc", ".pyd", ".egg-info", ".dist-info")
# What a tree of sources has at its root, and a site-packages has not.
_SOURCES = ("pyproject.toml", "setup.py", "PKG-INFO")
GENERATED = {"vllm/_version.py", "vllm/commit_id.py"}
LEFT_OUT = {*GENERATED, LOCK_FILE}
# Of files that the release has: the edits of this many lines are found in a minute.
MOST_LINES = 10_000
MOST_PLACES = 2_000


def is_tree(folder: Path) -> bool:
    """Whether a folder looks like sources or a site-packages, and not like a folder of diffs."""
    has_package = (folder / "__init__.py").is_file() or any(folder.glob("*/__init__.py"))
    return has_package and not (folder / SERIES).is_file() and not diffs_in(folder)


def from_tree(folder: Path, stack: Stack) -> list[SourceChange]:
    """Read what a folder has otherwise than the release: a source tree, or a site-packages.

    Raises:
        UsageError: it is another tree, nothing differs, or files of the release are missing.
    """
    name, where = folder.resolve().name, str(folder)
    packages = stack.paths.packages
    root = _root(folder, packages)
    installed = not any((root / name).is_file() for name in _SOURCES)
    # In a site-packages, others have all the rest.
    folders = sorted(packages) if installed else ["."]
    files = {path: place for below in folders for path, place in _files(root, below)}
    changed: list[FileChange] = []
    left_aside: list[LeftAside] = []
    recorded = _recorded_digests(root, stack.tree.pin.tree) if installed else {}
    for path, place in sorted(files.items()):
        content = read_file(place, LARGEST_FILE)
        before = stack.read(path)
        if before == content or (before is None and _is_recorded(path, content, recorded)):
            continue
        why = aside(path)
        if why is None and before is None and installed and not recorded:
            why = "the release has no such file, and no RECORD says that the wheel brought it"
        if why is None and not is_text(content):
            why = "it is not text"
        if why is not None:
            diff = b"".join(unified_diff(path, before, content)).decode(errors="replace")
            left_aside.append(LeftAside(path, why, 1, diff))
        else:
            changed.append(FileChange(path, before, content))
    _refuse_missing(where, stack, files)
    if not changed:
        raise UsageError(
            "nothing differs from the release",
            where=where,
            hint="name the folder that was changed, and the release that it came from with --vllm",
            code="importing.nothing-left",
        )
    refuse_large(changed, where)
    message = Message(f"What {name} changes")
    change = SourceChange(id_of("", name), where, message, tuple(changed), tuple(left_aside))
    return [stack.push(change)]


def refuse_large(files: Sequence[FileChange], where: str) -> None:
    """Refuse a change for which no edits could be found in time.

    Raises:
        UsageError: files that the release has get more than `MOST_LINES` lines, or change in more
            than `MOST_PLACES` places.
    """
    sides = [
        (file.before.split(b"\n"), file.after.split(b"\n"))
        for file in files
        if file.before is not None
    ]
    lines, places = (
        sum(numbers) for numbers in zip((0, 0), *(_new_lines(*side) for side in sides), strict=True)
    )
    places = max(places, sum(_new_lines(after, before)[1] for before, after in sides))
    for number, most, what in (
        (lines, MOST_LINES, "lines are new"),
        (places, MOST_PLACES, "places change"),
    ):
        if number > most:
            raise UsageError(
                f"{number} {what} in files that the release has; vpatch takes {most}",
                where=where,
                hint="import the change in parts, or put the code into new files",
                code="importing.too-large",
            )


def _new_lines(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[int, int]:
    """Count the lines that only `after` has, and the places where there are some."""
    remaining = Counter(before)
    lines = places = 0
    was_new = False
    for line in after:
        remaining[line] -= 1
        is_new = remaining[line] < 0
        lines += is_new
        places += is_new and not was_new
        was_new = is_new
    return lines, places


def _root(folder: Path, packages: Collection[str]) -> Path:
    for name in sorted(packages):
        for root in (folder, folder.parent):
            if (root / name / "__init__.py").is_file() and (root == folder or folder.name == name):
                return root
    names = " or ".join(sorted(packages))
    raise UsageError(
        f"has no {names}/__init__.py",
        where=str(folder),
        hint=f"name a tree of the sources, a site-packages, or the folder {names} in one",
        code="importing.no-tree",
    )


def _files(root: Path, below: str) -> Iterator[tuple[str, Path]]:
    for parent, folders, names in os.walk(root / below):
        folders[:] = [name for name in folders if name not in _MADE and not name.endswith(BUILT)]
        for name in names:
            place = root.__class__(parent, name)
            path = place.relative_to(root).as_posix()
            if name.endswith(BUILT) or path in LEFT_OUT:
                continue
            if place.is_symlink() or not place.is_file():
                continue
            try:
                plain_path(path)
            except ValueError:
                continue
            yield path, place


def _recorded_digests(root: Path, distribution: str) -> Mapping[str, str]:
    """The digests of the files that the wheel brought, by their paths."""
    digests: dict[str, str] = {}
    for file in root.glob(f"{distribution.replace('-', '_')}-*.dist-info/RECORD"):
        with file.open(encoding="utf-8", newline="") as lines:
            digests |= {row[0]: row[1] for row in csv.reader(lines) if len(row) > 1}
    return digests


def _is_recorded(path: str, content: bytes, recorded: Mapping[str, str]) -> bool:
    """Whether the wheel brought a file that the sources do not have."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return recorded.get(path) == f"sha256={digest}"


def _refuse_missing(where: str, stack: Stack, files: Mapping[str, Path]) -> None:
    """Refuse a tree that lacks modules of the release: no patch removes a file."""
    missing = [
        path
        for path in sorted(stack.paths.paths - files.keys())
        if path.endswith(".py")
        and path.partition("/")[0] in stack.paths.packages
        and path not in GENERATED
    ]
    if missing:
        raise UsageError(
            f"files of the release are missing in it: {listed(missing, 3)}",
            where=where,
            hint="is --vllm the release that it came from? vpatch cannot remove or rename files: "
            "put them back to import the rest",
            code="importing.missing-files",
        )


def is_text(content: bytes) -> bool:
    """Whether a file is UTF-8 without a NUL."""
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
