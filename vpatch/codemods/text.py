"""Edits of files that are not Python: anchored text, diffs without fuzz, whole new files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidiff.constants import LINE_TYPE_NO_NEWLINE
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unidiff.patch import Hunk

_WORD = re.compile(rb"\w")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# What the lines of a diff outside its hunks are, and what each may stand behind.
_HEADERS = (
    ("git", re.compile(r"diff --git \S"), {"", "hunk"}),
    ("new", re.compile(r"new file mode 100644$"), {"git"}),
    ("index", re.compile(r"index [0-9a-f]+\.\.[0-9a-f]+( 100(644|755))?$"), {"git", "new"}),
    ("old", re.compile(r"--- \S[^\r]*$"), {"", "git", "new", "index", "hunk"}),
    ("target", re.compile(r"\+\+\+ \S[^\r]*$"), {"old"}),
    ("hunk", _HUNK, {"target", "hunk"}),
)


@dataclass(frozen=True)
class TextSite:
    """A place in a text file; `line` counts from 1.

    `recognised` is False where the new text is there, but nothing shows that it replaced the old.
    """

    line: int
    todo: bool
    problem: str | None = None
    recognised: bool = True


@dataclass(frozen=True)
class TextEdit:
    """Replace each occurrence of `find` in the files that match one of the globs.

    Occurrences of `replace` are done; what stands inside them is not looked at, so that
    `replace` may contain `find`. In a file whose lines all end in CRLF, so do these texts. No
    occurrence begins or ends inside a word. With `whole_lines`, as in a diff, it is made of lines.
    """

    files: tuple[str, ...]
    find: bytes
    replace: bytes
    whole_lines: bool = False

    def __post_init__(self) -> None:
        if not self.find:
            raise UsageError("there is no text to find")

    @property
    def is_recognised(self) -> bool:
        """Whether the new text shows which text it replaced: it holds it, or a line around it."""
        if self.find in self.replace:
            return True
        new = set(self.replace.splitlines())
        return self.whole_lines and any(
            line.strip() and line in new for line in self.find.splitlines()
        )

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
            line = data.count(b"\n", 0, at) + 1
            sites.append(
                TextSite(line, todo=not is_done, recognised=not is_done or self.is_recognised)
            )
            parts += [data[position:at], replace]
            position = at + len(replace if is_done else find)
        return b"".join([*parts, data[position:]]), tuple(sites)

    def _index(self, data: bytes, text: bytes, start: int) -> int:
        at = data.find(text, start)
        while at != -1 and self._is_part(data, at, at + len(text)):
            at = data.find(text, at + 1)
        return at

    def _is_part(self, data: bytes, start: int, end: int) -> bool:
        """Whether what stands there is a piece of a longer word, or of a longer line."""
        before, after = data[start - 1 : start] if start else b"", data[end : end + 1]
        if self.whole_lines:
            return before not in {b"", b"\n"} or (after != b"" and data[end - 1 : end] != b"\n")
        return bool(
            (_WORD.match(before) and _WORD.match(data, start))
            or (_WORD.match(after) and _WORD.match(data, end - 1))
        )


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
        UsageError: the diff cannot be parsed, holds a line that says anything else, or deletes,
            renames or changes binary files.
    """
    where = str(path)
    try:
        # Not splitlines(): a carriage return or a form feed may stand inside a line.
        lines = [f"{line}\n" for line in path.read_bytes().decode().split("\n")]
        if lines[-1] == "\n":
            lines.pop()
        _check_lines(lines, where)
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
            if file.source_file == "/dev/null" and not old and len(file) == 1:
                edits.append(AddFile(file.path, new))
            elif not old or not new:
                raise UsageError(
                    f"a hunk of {file.path} has nothing that it is found by",
                    where=where,
                    todo="make the diff with context, as with git diff -U3",
                )
            else:
                edits.append(TextEdit((file.path,), old, new, whole_lines=True))
    if not edits:
        raise UsageError("the diff holds no hunk", where=where)
    return edits


def _check_lines(lines: Sequence[str], where: str) -> None:
    """Check that the diff has no line that the parser passes over.

    Raises:
        UsageError: it has one; says which.
    """
    kind = ""
    names: dict[str, str] = {}
    old = new = 0
    for number, ended in enumerate(lines, 1):
        line = ended.removesuffix("\n")
        if old > 0 or new > 0:
            # An editor may have taken away the blank of an empty line.
            old -= line[:1] in {"", "\r", " ", "-"}
            new -= line[:1] in {"", "\r", " ", "+"}
            if line[:1] in {"", "\r", " ", "-", "+", "\\"}:
                continue
        elif kind == "hunk" and line == "\\ No newline at end of file":
            continue
        kind = _kind_of(line, kind)
        names[kind] = line
        if not kind or old > 0 or new > 0 or not _is_one_file(kind, names):
            raise UsageError(
                f"not a unified diff of text files: line {number} is {line!r}",
                where=where,
                todo="declare changes of text files and new files only",
            )
        if kind == "hunk" and (sizes := _HUNK.match(line)):
            old, new = (int(size or 1) for size in sizes.groups())
    if kind not in {"", "hunk"}:
        raise UsageError("not a unified diff: it ends before a hunk", where=where)


def _kind_of(line: str, before: str) -> str:
    for kind, pattern, behind in _HEADERS:
        if before in behind and pattern.match(line):
            return kind
    return ""


def _is_one_file(kind: str, names: dict[str, str]) -> bool:
    """Whether the header lines up to here are about the same file; forgets them behind the last."""
    if kind != "target":
        return True
    old, target = (names[key][4:].partition("\t")[0] for key in ("old", "target"))
    git, is_new = names.pop("git", None), names.pop("new", None)
    if is_new is not None and old != "/dev/null":
        return False
    return git is None or old == "/dev/null" or git == f"diff --git {old} {target}"


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
