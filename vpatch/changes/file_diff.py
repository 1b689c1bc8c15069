"""The diff of one file, as it was read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vpatch.changes.diff_names import FileName

_SUBMODULE = re.compile(r"[+-]Subproject commit [0-9a-f]{40}(-dirty)?$")


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

    `refused` says why no import can take it, and `notes` what was corrected: a person must look.
    """

    old: str | None
    new: str | None
    hunks: tuple[HunkText, ...]
    refused: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.new or self.old or ""

    @property
    def may_create(self) -> bool:
        """Whether a release without the file may get it."""
        return self.old is None or (
            len(self.hunks) == 1 and self.hunks[0].start == 0 and not self.hunks[0].side("-")
        )

    @property
    def changed_lines(self) -> int:
        """How many lines it removes and adds."""
        return sum(line[0] in {"+", "-"} for hunk in self.hunks for line in hunk.lines)

    def text(self, path: str) -> str:
        """The diff under another name, as git reads it."""
        head = [f"diff --git a/{path} b/{path}\n"]
        if self.old is None:
            head.append("new file mode 100644\n")
        if self.hunks:
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


@dataclass
class FileLines:
    """The diff of one file while it is read."""

    old: str | None
    new: str | None
    # Reasons, each of them once.
    refused: dict[str, None] = field(default_factory=dict)
    hunks: list[HunkText] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Which sides have the time that `diff -N` gives to a file which is not there.
    epochs: tuple[bool, bool] = (False, False)
    # Whether git's line began it: then it has the names of the lines below.
    is_git: bool = False
    # Whether `---` and `+++` name it, and whether the diff is known to say all of it without hunks.
    named: bool = False
    whole: bool = False

    @classmethod
    def of(cls, old: FileName, new: FileName, refused: str | None = None) -> FileLines:
        """A diff that has begun; `refused` is why nothing of it can be taken."""
        reasons = dict.fromkeys([] if refused is None else [refused])
        if not (old.is_utf8 and new.is_utf8):
            reasons["has a name that is not UTF-8"] = None
        return cls(old.name, new.name, reasons)

    def is_of(self, header: FileLines) -> bool:
        """Whether `---` and `+++` name the file that a line above them began."""
        own = {name for name in (self.old, self.new) if name}
        names = {name for name in (header.old, header.new) if name}
        if not self.is_git:
            own, names = ({name.rpartition("/")[2] for name in each} for each in (own, names))
        return bool(own & names)

    def file_diff(self) -> FileDiff:
        if not self.hunks and not self.refused and not self.whole:
            self.refused["has no hunk: the diff may be cut off, or the file be empty"] = None
        sides = [[line for hunk in self.hunks for line in hunk.side(sign)] for sign in "-+"]
        old, new = (
            None if is_epoch and self.hunks and not side else name
            for name, is_epoch, side in zip((self.old, self.new), self.epochs, sides, strict=True)
        )
        lines = [line for hunk in self.hunks for line in hunk.lines]
        if any(map(_SUBMODULE.match, lines)):
            self.refused["has a submodule"] = None
        if any("\0" in line for line in lines):
            self.refused["has a NUL in it: it is not text"] = None
        if any("\ud800" <= char <= "\udfff" for line in lines for char in line):
            self.refused["has lines that are not UTF-8"] = None
        return FileDiff(
            old,
            new,
            tuple(self.hunks),
            ", and ".join(self.refused) or None,
            tuple(self.notes),
        )
