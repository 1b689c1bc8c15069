"""Text with diffs in it becomes plain unified diffs: mail, comments and wrong counts go away.

unidiff and git refuse hunks with wrong counts, which many diffs have that people edited by hand.
Nothing of a diff is passed over: a line that is in none of its hunks, and says something of the
contents, is the reason why a file is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.changes.diff_headers import begun, is_empty_after, is_part_of_diff, loss_of
from vpatch.changes.diff_names import name_of
from vpatch.changes.file_diff import FileDiff, FileLines, HunkText
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAIL = re.compile(r"From [0-9a-f]{7,64} ")
_HUNK = re.compile(r"@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@(.*)")
# A file of a billion lines has 10.
_DIGITS = 10
_BODY = frozenset({" ", "+", "-", "\\"})
_VERSION = re.compile(r"\d[\w.() -]*$")
_NO_LINE_END = "\\ No newline at end of file"
_SIGNATURES = frozenset({"-- ", "--", "---"})
_ENCODED = re.compile(
    r"^Content-Transfer-Encoding: *(quoted-printable|base64)", re.IGNORECASE | re.MULTILINE
)
_QUOTED_PRINTABLE = re.compile(r"=[0-9A-F]{2}|=$")
# An import takes a second for a hunk, and an hour at most.
MOST_HUNKS = 5_000


@dataclass(frozen=True)
class DiffText:
    """The prose and the diffs of one message."""

    prose: str
    files: tuple[FileDiff, ...]


def read_diffs(content: bytes, where: str) -> list[DiffText]:
    """Read what is in a file of diffs; a mailbox has several messages.

    Raises:
        UsageError: it is not text with diffs, has CRLF line ends, a hunk without a file, or too
            many hunks, or a part of it is missing.
    """
    if b"\r\n" in content:
        number = content[: content.index(b"\r\n")].count(b"\n") + 1
        raise UsageError(
            f"the diff has CRLF line ends, from line {number} on, and vLLM's files have LF",
            where=where,
            hint="convert it with dos2unix, or fetch it again as plain text",
            code="importing.crlf",
        )
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _no_diff("is UTF-16, and not UTF-8", where)
    # Bytes of files that are left aside may be anything.
    lines = content.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape").split("\n")
    if sum(line.startswith("@@ ") for line in lines) > MOST_HUNKS:
        raise UsageError(
            f"has more than {MOST_HUNKS} hunks",
            where=where,
            hint="import it in several parts, each a diff of its own",
            code="importing.too-large",
        )
    starts = [n for n, line in enumerate(lines) if _MAIL.match(line)] or [0]
    starts[0] = 0
    ends = [*starts[1:], len(lines)]
    texts = [_Reader(lines[i:j], where, i).read() for i, j in zip(starts, ends, strict=True)]
    # A series may begin with a mail that says what it is about.
    texts = [text for text in texts if text.files]
    if not texts:
        raise _no_diff("has no unified diff", where)
    return texts


class _Reader:
    """Reads one message, line by line."""

    def __init__(self, lines: Sequence[str], where: str, offset: int) -> None:
        self.lines = lines
        self.where = where
        self.offset = offset
        self.at = 0
        self.prose: list[str] = []
        self.files: list[FileLines] = []
        self.signed = False

    def read(self) -> DiffText:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
            if line.startswith("--- ") and following.startswith("+++ "):
                self._name(line, following)
                self.at += 1
            elif hunk := _HUNK.match(line):
                self._hunk(hunk)
                continue
            elif not self._belongs(line) and not self._begins():
                self._pass_over(line)
            self.at += 1
        if self.files and not self.files[-1].hunks and self.lines[-1]:
            name = self.files[-1].new or self.files[-1].old
            raise _cut(f"the header of {name} lacks the end of a line", self.where)
        prose = "\n".join(self.prose).encode(errors="surrogateescape").decode(errors="replace")
        self._refuse_encoded(prose)
        return DiffText(prose, tuple(file.file_diff() for file in self.files))

    def _refuse_encoded(self, prose: str) -> None:
        encoding = _ENCODED.search(prose)
        if encoding is None:
            return
        hunks = (hunk for file in self.files for hunk in file.hunks)
        lines = [line for hunk in hunks for line in hunk.lines]
        if encoding[1].lower() == "base64" or any(map(_QUOTED_PRINTABLE.search, lines)):
            raise _no_diff(f"has a mail in {encoding[1]}: decode it first", self.where)

    def _belongs(self, line: str) -> bool:
        """Take a line which says something of the file that has begun, above its hunks."""
        if not self.files or self.files[-1].hunks:
            return False
        file = self.files[-1]
        # diff -r writes such a line for a file of its own.
        if line.startswith("Binary files ") and (file.named or file.refused):
            return False
        loss = loss_of(line)
        if loss is not None:
            file.refused[loss] = None
        if line.startswith("new file mode "):
            file.old, file.whole = None, True
        elif line.startswith("deleted file mode "):
            file.new, file.whole = None, True
        elif line.startswith("index "):
            file.whole = file.whole and (file.new is None or is_empty_after(line))
        return loss is not None or line.startswith(
            ("new file mode ", "deleted file mode ", "index ")
        )

    def _begins(self) -> bool:
        file = begun(self.lines, self.at, inside=bool(self.files))
        if file is None:
            return False
        file.is_git = self.lines[self.at].startswith("diff --git ")
        self._add(file)
        return True

    def _add(self, file: FileLines) -> None:
        self.files.append(file)
        self.signed = False

    def _name(self, old: str, new: str) -> None:
        """Read the lines `---` and `+++`: they name a file, or the one that a line above began."""
        names = name_of(old[4:]), name_of(new[4:])
        header = FileLines.of(*names)
        above = self.files[-1] if self.files else None
        if above is None or above.named or above.hunks or not above.is_of(header):
            self._add(header)
        else:
            above.old, above.new, above.whole = header.old, header.new, False
            above.refused |= header.refused
        file = self.files[-1]
        file.named, file.epochs = True, (names[0].has_epoch, names[1].has_epoch)

    def _pass_over(self, line: str) -> None:
        """Take a line outside the hunks; a file is refused if the line looks like one of a hunk."""
        if not self.files:
            self.prose.append(line)
        elif line in _SIGNATURES:
            self.signed = True
        elif line.startswith("@@") or (line[:1] in {"+", "-"} and not self.signed):
            number = self.offset + self.at + 1
            self.files[-1].refused.setdefault(f"has line {number}, which is in no hunk")

    def _hunk(self, header: re.Match[str]) -> None:
        number = self.offset + self.at + 1
        if not self.files:
            raise _no_diff(f"line {number} begins a hunk, and no line names its file", self.where)
        file = self.files[-1]
        if any(len(text or "") > _DIGITS for text in header.groups()[:-1]):
            name = file.new or file.old
            what = f"line {number}, of {name}, counts more lines than a file has"
            raise _no_diff(what, self.where)
        start, section = int(header[1]), header[5]
        old, new = int(header[2] or 1), int(header[4] or 1)
        begin = self.at + 1
        end = self._end_by_counts(begin, old, new)
        if end is None or not self._ends(end):
            end = self._end_without_counts(begin)
            file.notes.append(f"line {number}: the counts of the hunk are corrected")
        self.at = end
        # An editor may have taken away the blank of an empty line.
        hunk = HunkText(start, tuple(line or " " for line in self.lines[begin:end]), section)
        if self._is_cut(hunk, old, new):
            name = file.new or file.old
            raise _cut(f"the hunk at line {number}, of {name}, lacks lines", self.where)
        file.hunks.append(hunk)

    def _is_cut(self, hunk: HunkText, old: int, new: int) -> bool:
        """Whether lines are missing at the end of a hunk, which the reader is behind."""
        # The last line of all has no line end.
        if self.at == len(self.lines) and hunk.lines and hunk.lines[-1] != _NO_LINE_END:
            return True
        if len(hunk.side("-")) >= old and len(hunk.side("+")) >= new:
            return False
        below = next((n for n in range(self.at, len(self.lines)) if self.lines[n]), None)
        if below is None:
            return True
        # A person took lines away from a hunk that other parts of the diff follow.
        line = self.lines[below]
        return not (line in _SIGNATURES or _HUNK.match(line) or is_part_of_diff(self.lines, below))

    def _end_without_counts(self, begin: int) -> int:
        """The line behind a hunk whose counts are wrong."""
        end = begin
        while end < len(self.lines) and (self.lines[end] == "" or not self._ends(end)):
            end += 1
        while end > begin and not self.lines[end - 1]:
            end -= 1
        return end

    def _end_by_counts(self, at: int, old: int, new: int) -> int | None:
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


def _cut(what: str, where: str) -> UsageError:
    return UsageError(
        f"{what}: the diff is cut off",
        where=where,
        hint="fetch it again; if you changed it by hand, correct the counts of the hunk, and end "
        "the last line",
        code="importing.truncated",
    )


def _no_diff(what: str, where: str) -> UsageError:
    return UsageError(
        what, where=where, hint="give a diff as git diff writes it", code="importing.no-diff"
    )
