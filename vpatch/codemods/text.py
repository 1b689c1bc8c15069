"""Edits of files that are not Python: anchored text, and whole new files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vpatch.errors import UsageError

_WORD = re.compile(rb"\w")


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
class TextReplacement:
    """Replace each occurrence of `find` in the files that match one of the globs.

    Occurrences of `replace` are done; what is inside them is not looked at, so that
    `replace` may contain `find`. In a file whose lines all end in CRLF, so do these texts. No
    occurrence begins or ends inside a word. With `whole_lines`, as in a diff, it is made of lines.
    """

    files: tuple[str, ...]
    find: bytes
    replace: bytes
    whole_lines: bool = False

    def __post_init__(self) -> None:
        if not self.find:
            raise UsageError(
                "there is no text to find",
                hint="write the text as it is in the file",
                code="codemods.wrong-edit",
            )

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
        """Whether the text there is a piece of a longer word, or of a longer line."""
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
