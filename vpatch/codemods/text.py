"""Edits of files that are not Python: anchored text, diffs without fuzz, whole new files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidiff.constants import LINE_TYPE_NO_NEWLINE
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from unidiff.patch import Hunk


@dataclass(frozen=True)
class TextSite:
    """A place in a text file; `line` counts from 1."""

    line: int
    todo: bool
    problem: str | None = None


@dataclass(frozen=True)
class TextEdit:
    """Replace each occurrence of `find` in the files that match one of the globs.

    Occurrences of `replace` count as done; what stands inside them is not looked at, so that
    `replace` may contain `find`. In a file whose lines all end in CRLF, so do these texts. With
    `whole_lines`, as in a diff, an occurrence begins at the beginning of a line.
    """

    files: tuple[str, ...]
    find: bytes
    replace: bytes
    whole_lines: bool = False

    def apply(self, data: bytes) -> tuple[bytes, tuple[TextSite, ...]]:
        find, replace = self.find, self.replace
        if b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n"):
            find, replace = (
                text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for text in (find, replace)
            )
        sites: list[TextSite] = []
        parts: list[bytes] = []
        position = 0
        while position < len(data):
            done = self._index(data, replace, position) if replace else -1
            todo = self._index(data, find, position)
            if done == todo == -1:
                break
            if -1 in (done, todo):
                is_done = todo == -1
            elif done <= todo and todo + len(find) <= done + len(replace):
                is_done = True  # the new text holds the old one
            else:
                # The new text may be a part of the old, as when something is taken away.
                is_done = done + len(replace) <= todo
            at = done if is_done else todo
            sites.append(TextSite(data.count(b"\n", 0, at) + 1, todo=not is_done))
            parts += [data[position:at], replace]
            position = at + len(replace if is_done else find)
        return b"".join([*parts, data[position:]]), tuple(sites)

    def _index(self, data: bytes, text: bytes, start: int) -> int:
        at = data.find(text, start)
        while self.whole_lines and at > 0 and data[at - 1 : at] != b"\n":
            at = data.find(text, at + 1)
        return at


@dataclass(frozen=True)
class AddFile:
    """Create `path`; the same content already there counts as done, any other is a problem."""

    path: str
    content: bytes

    def apply(self, data: bytes | None) -> tuple[bytes, tuple[TextSite, ...]]:
        if data is None:
            return self.content, (TextSite(1, todo=True),)
        if data == self.content:
            return data, (TextSite(1, todo=False),)
        return data, (TextSite(1, todo=True, problem="another file is already there"),)


def parse_diff(path: Path) -> list[TextEdit | AddFile]:
    """Turn a unified diff into one edit a hunk, each of which must match exactly once.

    The line numbers of the diff are not used: a hunk is found by its context, all of it.

    Raises:
        UsageError: the diff cannot be parsed, or deletes, renames or changes binary files.
    """
    where = str(path)
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            patch = PatchSet(lines)
    except (UnidiffParseError, UnicodeDecodeError) as error:
        raise UsageError(f"not a unified diff: {error}", where=where) from error
    edits: list[TextEdit | AddFile] = []
    for file in patch:
        if file.is_removed_file or file.is_rename or file.is_binary_file:
            raise UsageError(
                f"it deletes, renames or holds a binary: {file.path}",
                where=where,
                todo="declare changes of text files and new files only",
            )
        for hunk in file:
            old, new = _sides(hunk)
            if file.is_added_file:
                edits.append(AddFile(file.path, new))
            else:
                edits.append(TextEdit((file.path,), old, new, whole_lines=True))
    if not edits:
        raise UsageError("the diff holds no hunk", where=where)
    return edits


def _sides(hunk: Hunk) -> tuple[bytes, bytes]:
    """What a hunk takes away and what it puts there, context included."""
    old: list[str] = []
    new: list[str] = []
    touched: list[list[str]] = []
    for line in hunk:
        if line.line_type == LINE_TYPE_NO_NEWLINE:
            for side in touched:
                side[-1] = side[-1].removesuffix("\n").removesuffix("\r")
            continue
        touched = [
            side for side, has in ((old, not line.is_added), (new, not line.is_removed)) if has
        ]
        for side in touched:
            side.append(line.value)
    return "".join(old).encode(), "".join(new).encode()
