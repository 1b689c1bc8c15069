"""What an import made of the hunks of a diff, as its author would count them."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.deriving.derive import BY_TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.changes.change import FileChange
    from vpatch.deriving.derive import DerivedEdit

_CONTEXT = 3


@dataclass(frozen=True)
class HunkCounts:
    """How many hunks of Python an import took, and how many of them by meaning alone.

    `kinds` counts edits by their verb; `others` are hunks of files that are not Python.
    """

    python: int
    by_meaning: int
    others: int
    kinds: Counter[str]


def count_hunks(
    files: Sequence[FileChange],
    edits: Sequence[DerivedEdit],
    left_out: Sequence[DerivedEdit] = (),
) -> HunkCounts:
    """Count hunks as `git diff` makes them, with three lines of context.

    A hunk with a change that is `left_out` is not by meaning.
    """
    python = meaning = others = 0
    for file in files:
        if file.before is None:
            continue
        ranges = list(_hunks(file.before, file.after))
        if not file.path.endswith(".py"):
            others += len(ranges)
            continue
        by_text = [e for e in (*edits, *left_out) if e.kind in BY_TEXT]
        text = [e.lines for e in by_text if e.path == file.path]
        python += len(ranges)
        meaning += sum(
            not any(first <= end + 1 and last + 1 >= start for first, last in text)
            for start, end in ranges
        )
    return HunkCounts(python, meaning, others, Counter(edit.kind for edit in edits))


def _hunks(before: bytes, after: bytes) -> list[tuple[int, int]]:
    """The first and the last line of each hunk in the old file, counted from 1."""
    sides = [text.decode(errors="replace").splitlines() for text in (before, after)]
    matcher = difflib.SequenceMatcher(None, sides[0], sides[1], autojunk=False)
    return [(ops[0][1] + 1, ops[-1][2]) for ops in matcher.get_grouped_opcodes(_CONTEXT)]
