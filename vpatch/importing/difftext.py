"""Text with diffs in it becomes plain unified diffs: mail, comments and wrong counts go away.

unidiff and git refuse hunks with wrong counts, which many diffs have that people edited by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAIL = re.compile(r"From [0-9a-f]{7,64} ")
_HUNK = re.compile(r"@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@(.*)")
# A file of a billion lines has 10.
_DIGITS = 10
_BODY = frozenset({" ", "+", "-", "\\"})
_VERSION = re.compile(r"\d[\w.() -]*$")
# Lines of git that say something of the next file, and what it means for an import.
_REFUSED = (
    (re.compile(r"(old|new) mode "), "changes the mode of a file"),
    (re.compile(r"(rename|copy) (from|to) "), "renames or copies a file"),
    (re.compile(r"(GIT binary patch|Binary files )"), "changes a binary file"),
)
_EXECUTABLE = "new file mode 100755"


@dataclass(frozen=True)
class HunkText:
    """A hunk: where it begins in the old file, counted from 1, and its lines with their signs."""

    start: int
    lines: tuple[str, ...]
    section: str = ""

    def side(self, sign: str) -> list[str]:
        """The lines of the old file (`-`) or the new one (`+`), without signs."""
        return [line[1:] for line in self.lines if line[0] in {" ", sign}]


@dataclass(frozen=True)
class FileDiff:
    """The diff of one file. `old` and `new` are the names in the diff, None for /dev/null.

    `refused` says why no import can take it, and `notes` what was corrected.
    """

    old: str | None
    new: str | None
    hunks: tuple[HunkText, ...]
    refused: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.new or self.old or ""

    def text(self, path: str) -> str:
        """The diff under another name, as git reads it."""
        head = [f"diff --git a/{path} b/{path}\n"]
        if self.old is None:
            head.append("new file mode 100644\n")
        head += [
            "--- /dev/null\n" if self.old is None else f"--- a/{path}\n",
            "+++ /dev/null\n" if self.new is None else f"+++ b/{path}\n",
        ]
        shift = 0
        for hunk in self.hunks:
            old, new = len(hunk.side("-")), len(hunk.side("+"))
            # A hunk without old lines names the line that it goes behind.
            target = hunk.start + shift + (not old) - (not new)
            head.append(f"@@ -{hunk.start},{old} +{target},{new} @@{hunk.section}\n")
            head += [f"{line}\n" for line in hunk.lines]
            shift += new - old
        return "".join(head)


@dataclass(frozen=True)
class DiffText:
    """The prose and the diffs of one message."""

    prose: str
    files: tuple[FileDiff, ...]


@dataclass
class _FileLines:
    old: str | None = None
    new: str | None = None
    hunks: list[HunkText] = field(default_factory=list)
    refused: str | None = None
    notes: list[str] = field(default_factory=list)
    named: bool = False

    def done(self) -> FileDiff:
        return FileDiff(self.old, self.new, tuple(self.hunks), self.refused, tuple(self.notes))


def read_diffs(content: bytes, where: str) -> list[DiffText]:
    """Read what is in a file of diffs; a mailbox has several messages.

    Raises:
        UsageError: it is not text with diffs, has CRLF line ends, or a hunk without a file.
    """
    if b"\r\n" in content:
        raise UsageError(
            "its lines end with CRLF, so that they cannot be those of vLLM's files",
            where=where,
            hint="convert it with dos2unix, or fetch it again as plain text",
            code="importing.crlf",
        )
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise _no_diff(f"is not UTF-8: {error.reason}", where) from error
    starts = [n for n, line in enumerate(lines) if _MAIL.match(line)] or [0]
    starts[0] = 0
    ends = [*starts[1:], len(lines)]
    found = [_Reader(lines[i:j], where, i).read() for i, j in zip(starts, ends, strict=True)]
    # A series may begin with a mail that says what it is about.
    found = [one for one in found if one.files]
    if not found:
        raise _no_diff("has no unified diff", where)
    return found


class _Reader:
    """Reads one message, line by line."""

    def __init__(self, lines: Sequence[str], where: str, offset: int) -> None:
        self.lines = lines
        self.where = where
        self.offset = offset
        self.at = 0
        self.prose: list[str] = []
        self.files: list[_FileLines] = []

    def read(self) -> DiffText:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
            if line.startswith("diff --git "):
                self._begin_git(line)
            elif line.startswith("--- ") and following.startswith("+++ "):
                self._begin(line, following)
                self.at += 1
            elif found := _HUNK.match(line):
                self._hunk(found)
                continue
            elif self.files and (reason := _refusal(line)):
                self.files[-1].refused = reason
            elif self.files and line == _EXECUTABLE:
                self.files[-1].notes.append("the new file is not made executable")
            elif not self.files:
                self.prose.append(line)
            self.at += 1
        files = [one.done() for one in self.files if one.hunks or one.refused]
        return DiffText("\n".join(self.prose), tuple(files))

    def _begin_git(self, line: str) -> None:
        names = line.removeprefix("diff --git ")
        half = (len(names) - 1) // 2
        old, new = names[:half], names[half + 1 :]
        if old[1:] != new[1:]:
            old, _, new = names.partition(" ")
        self.files.append(_FileLines(old, new, named=False))

    def _begin(self, old: str, new: str) -> None:
        if not self.files or self.files[-1].named or self.files[-1].hunks:
            self.files.append(_FileLines())
        file = self.files[-1]
        file.old, file.new, file.named = _name(old[4:]), _name(new[4:]), True

    def _hunk(self, found: re.Match[str]) -> None:
        number = self.offset + self.at + 1
        if not self.files:
            raise _no_diff(f"line {number} begins a hunk, and no line names its file", self.where)
        start, old, _, new, section = found.groups()
        if any(len(text or "") > _DIGITS for text in found.groups()[:-1]):
            raise _no_diff(f"line {number} counts more lines than a file has", self.where)
        body, corrected = self._body(int(old or 1), int(new or 1))
        if corrected:
            self.files[-1].notes.append(f"line {number}: the counts of the hunk are corrected")
        self.files[-1].hunks.append(HunkText(int(start), tuple(body), section))

    def _body(self, old: int, new: int) -> tuple[list[str], bool]:
        """The lines of the hunk whose header is at hand, and whether its counts were wrong."""
        begin = self.at + 1
        end = self._counted(begin, old, new)
        corrected = end is None or not self._ends(end)
        if end is None or corrected:
            end = begin
            while end < len(self.lines) and (self.lines[end] == "" or not self._ends(end)):
                end += 1
            while end > begin and not self.lines[end - 1]:
                end -= 1
        self.at = end
        return self._signed(begin, end), corrected

    def _counted(self, at: int, old: int, new: int) -> int | None:
        """The line behind a hunk by its counts; None if they do not fit."""
        while (old > 0 or new > 0) and at < len(self.lines):
            sign = self.lines[at][:1] or " "
            if sign not in _BODY:
                return None
            old -= sign in {" ", "-"}
            new -= sign in {" ", "+"}
            at += 1
        while at < len(self.lines) and self.lines[at][:1] == "\\":
            at += 1
        return at if old == new == 0 else None

    def _ends(self, at: int) -> bool:
        """Whether a hunk ends above a line."""
        line, following = ["", *self.lines[at : at + 2], "", ""][1:3]
        if line[:1] not in _BODY or (line.startswith("--- ") and following.startswith("+++ ")):
            return True
        return line in {"-- ", "--"} and (not following or _VERSION.match(following) is not None)

    def _signed(self, begin: int, end: int) -> list[str]:
        # An editor may have taken away the blank of an empty line.
        return [line or " " for line in self.lines[begin:end]]


def _refusal(line: str) -> str | None:
    return next((why for pattern, why in _REFUSED if pattern.match(line)), None)


def _name(text: str) -> str | None:
    name = text.partition("\t")[0].rstrip()
    if name[:1] == name[-1:] == '"':
        name = name[1:-1]
    return None if name == "/dev/null" else name


def _no_diff(what: str, where: str) -> UsageError:
    return UsageError(
        what, where=where, hint="give a diff as git diff writes it", code="importing.no-diff"
    )
