"""Where a text has lines that are nearly the wanted ones, and the first line that differs."""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# How alike two lines are that may be one and the same, edited.
_ALIKE = 0.7


@dataclass(frozen=True)
class LineDifference:
    """A line that is not the wanted one; `line` counts from 1, `actual` is None behind the last."""

    line: int
    expected: str
    actual: str | None

    def __str__(self) -> str:
        expected, actual = self.expected, self.actual
        if actual is None:
            return f"expected  {expected}\nfound     the end of the file"
        if expected.split() == actual.split():  # blanks that differ must be seen
            expected, actual = repr(expected), repr(actual)
        return f"expected  {expected}\nfound     {actual}"


def first_difference(
    wanted: Sequence[str], there: Sequence[str], near: int = 1
) -> LineDifference | None:
    """Find the place that is most like the wanted lines, and the first line that differs there.

    Of places that are alike, the one closest to the line `near` counts. None if no place is like
    the wanted lines, or one has them all.
    """
    start = _start(wanted, there, near)
    if start is None:
        return _by_likeness(wanted, there)
    same = [0 <= n < len(there) and there[n] == line for n, line in enumerate(wanted, start)]
    if all(same):
        return None
    # The first lines may differ because a line below them is new, or is missing.
    number = same.index(False) if same[0] else same.index(True) - 1
    at = max(0, start + number)
    return LineDifference(at + 1, wanted[number], there[at] if at < len(there) else None)


def _start(wanted: Sequence[str], there: Sequence[str], near: int) -> int | None:
    """The line, from 0, where the wanted lines would begin; rare lines tell more than others."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(there):
        if line.strip():
            places[line].append(number)
    votes: defaultdict[int, float] = defaultdict(float)
    for number, line in enumerate(wanted):
        for place in places.get(line, ()):
            votes[place - number] += 1 / len(places[line])
    if not votes:
        return None
    return max(votes, key=lambda start: (votes[start], -abs(start + 1 - near)))


def _by_likeness(wanted: Sequence[str], there: Sequence[str]) -> LineDifference | None:
    """The line of a text that is most like the longest that is wanted."""
    longest = max(wanted, key=lambda line: len(line.strip()), default="")
    near = difflib.get_close_matches(longest, dict.fromkeys(there), 1, _ALIKE)
    return LineDifference(there.index(near[0]) + 1, longest, near[0]) if near else None
