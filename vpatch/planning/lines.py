"""The lines of a pristine file that lines of the patched one come from."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def pristine_lines(pristine: bytes, patched: bytes) -> Sequence[int]:
    """For each line of a patched file, the one of the pristine file that it was; from 1.

    For a line that was added, it is the line that follows it.
    """
    old, new = pristine.split(b"\n"), patched.split(b"\n")
    lines: list[int] = []
    for tag, i1, i2, j1, j2 in _opcodes(old, new):
        last = i2 if tag == "equal" else min(max(i2, i1 + 1), len(old))
        lines += [min(i1 + number + 1, last) for number in range(j2 - j1)]
    return lines


def changed_lines(pristine: bytes, patched: bytes) -> list[int]:
    """The first line of each difference in the pristine file, from 1.

    Where lines were only added, it is the line that follows them.
    """
    old, new = pristine.split(b"\n"), patched.split(b"\n")
    opcodes = _opcodes(old, new)
    return [min(i1 + 1, len(old)) for tag, i1, *_ in opcodes if tag != "equal"]


def _opcodes(
    old: Sequence[bytes], new: Sequence[bytes]
) -> Iterator[tuple[str, int, int, int, int]]:
    """As those of difflib, over all lines."""
    top = _common(old, new)
    bottom = _common(old[top:][::-1], new[top:][::-1])
    if top:
        yield "equal", 0, top, 0, top
    # Without what is the same, to compare takes no time on files of thousands of lines.
    matcher = difflib.SequenceMatcher(
        None, old[top : len(old) - bottom], new[top : len(new) - bottom], autojunk=False
    )
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        yield tag, top + i1, top + i2, top + j1, top + j2
    if bottom:
        yield "equal", len(old) - bottom, len(old), len(new) - bottom, len(new)


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
