"""How two sides differ from the same base, item by item, and which differences meet."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class SideHunk:
    """What a side has instead of `base[first:last]`: its own `[begin:end]`."""

    first: int
    last: int
    begin: int
    end: int

    def overlaps(self, other: SideHunk) -> bool:
        """Whether both change the same item, or add something at the same place."""
        if self.first == self.last and other.first == other.last:
            return self.first == other.first
        return self.first < other.last and other.first < self.last


# The differences of upstream, and those of the change, that overlap.
Cluster = tuple[list[SideHunk], list[SideHunk]]


def side_hunks(base: Sequence[str], side: Sequence[str], *, backwards: bool) -> list[SideHunk]:
    """The differences, looked for from the beginning or from the end."""
    if not backwards:
        codes = SequenceMatcher(None, base, side, autojunk=False).get_opcodes()
        return [SideHunk(*code[1:]) for code in codes if code[0] != "equal"]
    codes = SequenceMatcher(None, base[::-1], side[::-1], autojunk=False).get_opcodes()
    long, wide = len(base), len(side)
    return [
        SideHunk(long - last, long - first, wide - end, wide - begin)
        for tag, first, last, begin, end in reversed(codes)
        if tag != "equal"
    ]


def counterparts(hunks: Sequence[SideHunk], length: int) -> list[int | None]:
    """The place in the side of each item of the base; None for those that changed."""
    places: list[int | None] = [None] * length
    at = shift = 0
    for hunk in [*hunks, SideHunk(length, length, length, length)]:
        places[at : hunk.first] = [number + shift for number in range(at, hunk.first)]
        at, shift = hunk.last, hunk.end - hunk.last
    return places


def clusters(own: Sequence[SideHunk], other: Sequence[SideHunk]) -> list[Cluster]:
    """The differences of both sides in order, those together that overlap."""
    tagged = [(hunk, 0) for hunk in own] + [(hunk, 1) for hunk in other]
    tagged.sort(key=lambda one: (one[0].first, one[0].last))
    listed: list[Cluster] = []
    for hunk, side in tagged:
        if listed and any(hunk.overlaps(one) for part in listed[-1] for one in part):
            listed[-1][side].append(hunk)
        else:
            listed.append(([], []))
            listed[-1][side].append(hunk)
    return listed
