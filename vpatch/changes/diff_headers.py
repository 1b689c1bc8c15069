"""The lines of a diff outside its hunks: which file they begin, and what they say of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.changes.diff_names import LONGEST, git_names, name_of, plain_name
from vpatch.changes.file_diff import FileLines

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINK, _SUBMODULE = "120000", "160000"
_SHOWN = 60
_NO_CONTENTS = "is a file whose contents the diff does not have"
_BINARY = "changes a binary file"
_CONTEXT_DIFF = "is a context diff, and vpatch reads unified ones: write it with diff -u"
# Lines that say what no hunk says of the file which they belong to.
_LOSSES = (
    (re.compile(r"(old|new) mode "), "changes the mode of a file"),
    (re.compile(r"(rename|copy) (from|to) "), "renames or copies a file"),
    (re.compile(r"(GIT binary patch|Binary files .* differ$|Cannot display: )"), _BINARY),
    (re.compile(rf"(new|deleted) file mode {_LINK}|index \S+ {_LINK}"), "has a symbolic link"),
    (
        re.compile(rf"(new|deleted) file mode {_SUBMODULE}|index \S+ {_SUBMODULE}"),
        "has a submodule",
    ),
    # The commit that vpatch makes would lack the mode.
    (re.compile(r"new file mode 100755"), "adds an executable file, and files get the mode 100644"),
    (re.compile(r"new file mode (?!100644|100755|120000|160000)"), "has a file of another mode"),
)
_BOTH = re.compile(r"(?:Binary files|Files) (.+) and (.+) differ$")
_GNU = re.compile(r"diff (?:-\S+ )+(?:\S+ )?(\S+)$")
# The ids that git gives to an empty file, by SHA-1 and SHA-256.
_EMPTY = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)
# What names a file by itself, and why nothing of that can be taken.
_ALONE = (
    (re.compile(r"diff --(?:cc|combined) (.+)$"), "is a combined diff, as git makes of a merge"),
    (re.compile(r"Binary file (.+) has changed$"), _BINARY),
    (re.compile(r"Submodule (\S+) [0-9a-f]{7,}|Submodule (\S+) contains "), "has a submodule"),
    (re.compile(r"Property changes on: (.+)$"), "changes properties of a file, such as its mode"),
    (re.compile(r"File (.+) is a .+ while file .+ is a "), "changes the kind of a file"),
    (re.compile(r"diff: (.+?): "), "is a file that could not be compared"),
)
_ONLY_IN = re.compile(r"Only in (.+?): (.+)$")


def begun(lines: Sequence[str], at: int, *, inside: bool) -> FileLines | None:
    """The diff of a file, without hunks, which a line begins; None if it begins none.

    `inside` says that a diff has begun above: only then, some lines cannot be prose.
    """
    line, following, third = [*lines[at : at + 3], "", "", ""][:3]
    if line.startswith("diff --git "):
        return FileLines.of(*git_names(line.removeprefix("diff --git ")))
    if line.startswith("*** ") and following.startswith("--- ") and third.startswith("*****"):
        return FileLines.of(name_of(line[4:]), name_of(following[4:]), _CONTEXT_DIFF)
    if len(line) > LONGEST:
        # Some of the patterns take a time that grows with the square of the length.
        return _alone(line[:_SHOWN], "has a line that is too long for a header") if inside else None
    if match := _BOTH.match(line):
        refused = _BINARY if line.startswith("Binary") else _NO_CONTENTS
        return FileLines.of(name_of(match[1]), name_of(match[2]), refused)
    return _of_one_name(line, following, inside=inside)


def _of_one_name(line: str, following: str, *, inside: bool) -> FileLines | None:
    """The diff of a file that a line gives one name."""
    if line.startswith("Index: ") and following.startswith("====="):
        return _alone(line.removeprefix("Index: "))
    if (match := _GNU.match(line)) and (inside or following.startswith(("--- ", "Binary "))):
        return _alone(match[1])
    if match := _ONLY_IN.match(line):
        return _alone(f"{match[1]}/{match[2]}", _NO_CONTENTS)
    for pattern, refused in _ALONE:
        if match := pattern.match(line):
            return _alone(match[1] or match[2], refused)
    return None


def loss_of(line: str) -> str | None:
    """What a line below the header of a file says that no edit does."""
    return next((why for pattern, why in _LOSSES if pattern.match(line)), None)


def is_empty_after(index: str) -> bool:
    """Whether git's line with the ids of a file says that it becomes empty."""
    _, _, after = index.removeprefix("index ").partition(" ")[0].partition("..")
    return bool(after) and any(empty.startswith(after) for empty in _EMPTY)


def is_part_of_diff(lines: Sequence[str], at: int) -> bool:
    """Whether a diff goes on in a line, with the header of a file."""
    line, following = [*lines[at : at + 2], "", ""][:2]
    if line.startswith("--- ") and following.startswith("+++ "):
        return True
    return begun(lines, at, inside=True) is not None


def _alone(name: str, refused: str | None = None) -> FileLines:
    file_name = plain_name(name)
    return FileLines.of(file_name, file_name, refused)
