"""The lines of a pristine file that lines of the patched one come from."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def pristine_lines(pristine: bytes, patched: bytes) -> Sequence[int]:
    """For each line of a patched file, the one of the pristine file that it was; from 1.

    For a line that was added, it is the line that follows it.
    """
    old, new = pristine.split(b"\n"), patched.split(b"\n")
    top = _common(old, new)
    bottom = _common(old[top:][::-1], new[top:][::-1])
    # Without what is the same, to compare takes no time on files of thousands of lines.
    matcher = difflib.SequenceMatcher(
        None, old[top : len(old) - bottom], new[top : len(new) - bottom], autojunk=False
    )
    lines = list(range(1, top + 1))
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        last = min(top + max(i2, i1 + 1), len(old))
        lines += [min(top + i1 + number + 1, last) for number in range(j2 - j1)]
    lines += range(len(old) - bottom + 1, len(old) + 1)
    return lines


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
