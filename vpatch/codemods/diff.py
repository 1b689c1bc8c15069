"""Unified diffs, as git and diff write them, turned into edits of text without fuzz."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from unidiff.constants import LINE_TYPE_NO_NEWLINE
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.errors import UsageError
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from unidiff.patch import Hunk

_HUNK = re.compile(r"@@ -[0-9]{1,10}(?:,([0-9]{1,10}))? \+[0-9]{1,10}(?:,([0-9]{1,10}))? @@")
_START = {"", "head", "hunk", "blank"}
_SHA = "[0-9a-f]{7,64}"
# The lines of a diff outside its hunks, and what each may follow.
_HEADERS = (
    ("git", re.compile(r"diff --git \S"), _START),
    ("gnu", re.compile(r"diff (-\S+ )+\S+ \S+$"), _START),
    ("new", re.compile(r"new file mode 100644$"), {"git"}),
    ("index", re.compile(r"index [0-9a-f]+\.\.[0-9a-f]+( 100(644|755))?$"), {"git", "new"}),
    ("old", re.compile(r"--- \S[^\r]*$"), {*_START, "git", "gnu", "new", "index"}),
    ("target", re.compile(r"\+\+\+ \S[^\r]*$"), {"old"}),
    ("hunk", _HUNK, {"target", "hunk"}),
    # A commit as `git format-patch`, `git show` and `git log -p` write it: prose, and a diff.
    ("head", re.compile(rf"(From|commit) {_SHA}\b"), {"", "hunk", "blank"}),
    ("head", re.compile(r"(From|Subject|Date|Message-I[dD]): \S"), {""}),
    # What looks like a part of a diff is not prose.
    (
        "head",
        re.compile(
            r"(?!@@ |\+\+\+ |diff |index \S+\.\.|(old|new|deleted|new file|deleted file) mode "
            r"|(rename|copy) (from|to) |(dis)?similarity index |Binary files |GIT binary patch)"
        ),
        {"head"},
    ),
    ("signature", re.compile(r"-- ?$"), {"hunk"}),
    ("blank", re.compile(r"\d[\w.() -]*$"), {"signature"}),
    ("blank", re.compile(r"$"), {"blank"}),
)
_TEXT_ONLY = "declare changes of text files and new files only"
_PROSE = {"head", "signature", "blank"}
_MODE = re.compile(r"(old mode \d+|new mode \d+|new file mode 100755)$")


def parse_diff(path: Path) -> list[tuple[TextReplacement | AddFile, int]]:
    """Turn a unified diff into edits, each with the number of places that it must match.

    The line numbers of the diff are not used: a hunk is found by its context, all of it. So hunks
    of a file that are the same, as without context, are one edit of several places. What mail says
    around a diff is left out.

    Raises:
        UsageError: the diff cannot be parsed, holds a line that says anything else, or deletes,
            renames, changes the mode of or changes binary files.
    """
    where = str(path)
    try:
        # Not splitlines(): a carriage return or a form feed may be inside a line.
        lines = [f"{line}\n" for line in bytes_beside(path).decode().split("\n")]
        if lines[-1] == "\n":
            lines.pop()
        patch = PatchSet(_check_lines(lines, where))
    except (UnidiffParseError, ValueError) as error:
        hint = "make it with git diff"
        raise _wrong(f"not a unified diff: {error}", where, hint) from error
    edits: Counter[TextReplacement | AddFile] = Counter()
    for file in patch:
        if file.is_removed_file or file.is_rename or file.is_binary_file:
            what = f"the diff deletes or renames a file, or has a binary one: {file.path}"
            raise _wrong(what, where, _TEXT_ONLY)
        for hunk in file:
            old, new = _sides(hunk)
            if file.source_file == "/dev/null" and not old and len(file) == 1:
                edits[AddFile(file.path, new)] += 1
            elif not old or not new:
                lines_are = "adds lines" if not old else "removes lines"
                raise _wrong(
                    f"the hunk of {file.path} at line {hunk.target_start} only {lines_are}, and "
                    f"has no context to find its place by",
                    where,
                    "make the diff with context, as with git diff -U3",
                )
            else:
                edits[TextReplacement((file.path,), old, new, whole_lines=True)] += 1
    if not edits:
        raise _wrong("the diff has no hunk", where, "make it with git diff")
    return list(edits.items())


def bytes_beside(path: Path) -> bytes:
    """Read a file that a patch brings along.

    Raises:
        UsageError: it cannot be read, or is too large.
    """
    try:
        return read_file(path, LARGEST_BESIDE)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            hint="correct its permissions, or leave it out",
            code="codemods.unreadable-file",
        ) from error


def _wrong(what: str, where: str, hint: str) -> UsageError:
    return UsageError(what, where=where, hint=hint, code="codemods.wrong-diff")


def _check_lines(lines: Sequence[str], where: str) -> list[str]:
    """The lines of the diff itself; checks that the parser passes over none of the others.

    Raises:
        UsageError: it has one; says which.
    """
    diff_lines: list[str] = []
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
                diff_lines.append(ended)
                continue
        elif kind == "hunk" and line == "\\ No newline at end of file":
            diff_lines.append(ended)
            continue
        if kind == "git":
            _refuse_mode(line, names[kind], f"{where}:{number}")
        kind = _kind_of(line, kind)
        names[kind] = line
        if kind not in _PROSE:
            diff_lines.append(ended)
        if not kind or old > 0 or new > 0 or not _is_one_file(kind, names):
            what = f"not a unified diff of text files: line {number} is {line[:200]!r}"
            raise _wrong(what, where, _TEXT_ONLY)
        if kind == "hunk" and (sizes := _HUNK.match(line)):
            old, new = (int(size or 1) for size in sizes.groups())
    if kind not in {"", "hunk", "signature", "blank"}:
        raise _wrong("not a unified diff: it ends before a hunk", where, "make it with git diff")
    return diff_lines


def _refuse_mode(line: str, header: str, where: str) -> None:
    """Refuse a change of a file's mode by name: it would get lost.

    Raises:
        UsageError: the line declares one.
    """
    if _MODE.match(line):
        path = header.rpartition(" b/")[2] or header
        raise _wrong(
            f"the diff has {line!r} for {path}, and vpatch changes the contents of files only",
            where,
            "if the mode does not matter, remove the lines with old mode and new mode, or write "
            "new file mode 100644; run a script with its interpreter, as in `bash FILE`",
        )


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
