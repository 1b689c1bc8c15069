"""Two changes of the same lines are laid together where git sees a conflict, if that is clear.

git merges whole lines with their indentation, and takes changes of neighbouring lines for a
conflict. Here the indentation of a line does not count, and a line may change in two places.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.merging.hunks_of_sides import SideHunk, clusters, counterparts, side_hunks
from vpatch.merging.token_merge import both_inserted, merge_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.merging.hunks_of_sides import Cluster

# Upstream's lines beside which something is added: as many as before, and this much the same.
_ALIKE = 0.5


def merge_region(ours: str, base: str, theirs: str) -> str | None:
    """What a region is with both changes; None if that is not clear.

    The differences are looked for from both ends. Where that gives two results, none is clear.
    """
    sides = [text.splitlines(keepends=True) for text in (ours, base, theirs)]
    if any(side and not side[-1].endswith("\n") for side in sides):
        return None
    one = _Region.of(*sides, backwards=False).merged()
    return one if one is not None and one == _Region.of(*sides, backwards=True).merged() else None


@dataclass(frozen=True)
class _Side:
    """The lines of a side, how they differ from the base, and how far each line is shifted.

    A line that is not in the base any more has no shift, nor has an empty one.
    """

    lines: list[str]
    hunks: list[SideHunk]
    places: list[int | None]
    shifts: list[int | None]

    @classmethod
    def of(cls, base: list[str], lines: list[str], *, backwards: bool) -> _Side:
        hunks = side_hunks(
            [line.strip() for line in base], [line.strip() for line in lines], backwards=backwards
        )
        places = counterparts(hunks, len(base))
        shifts = [
            None if place is None or not line.strip() else indent(lines[place]) - indent(line)
            for line, place in zip(base, places, strict=True)
        ]
        return cls(lines, hunks, places, shifts)

    def segment(self, hunks: list[SideHunk], first: int, last: int) -> list[str]:
        """What the side has instead of lines of the base; `hunks` are those in these lines."""
        begin = hunks[0].begin - (hunks[0].first - first)
        end = hunks[-1].end + (last - hunks[-1].last)
        return self.lines[begin:end]


@dataclass(frozen=True)
class _Region:
    base: list[str]
    ours: _Side
    theirs: _Side
    backwards: bool

    @classmethod
    def of(cls, ours: list[str], base: list[str], theirs: list[str], *, backwards: bool) -> _Region:
        own, other = (_Side.of(base, side, backwards=backwards) for side in (ours, theirs))
        return cls(base, own, other, backwards)

    def merged(self) -> str | None:
        """The lines with the changes of both sides."""
        parts = clusters(self.ours.hunks, self.theirs.hunks)
        if not self._is_clear(parts):
            return None
        pieces: list[str] = []
        at = 0
        for part in parts:
            first, last = _span(part)
            piece = self._piece(*part, first, last)
            if piece is None:
                return None
            pieces += [*self._kept(at, first), *piece]
            at = last
        return "".join([*pieces, *self._kept(at, len(self.base))])

    def _kept(self, first: int, last: int) -> list[str]:
        """Lines that both sides have, where both have shifted them."""
        lines = []
        for number in range(first, last):
            place = self.ours.places[number]
            line = self.base[number] if place is None else self.ours.lines[place]
            lines.append(shifted(line, self.theirs.shifts[number] or 0))
        return lines

    def _piece(
        self, own: list[SideHunk], other: list[SideHunk], first: int, last: int
    ) -> list[str] | None:
        if not other:
            return self._moved(self.ours.segment(own, first, last), self.theirs, first, last)
        if not own:
            return self._moved(self.theirs.segment(other, first, last), self.ours, first, last)
        ours = self.ours.segment(own, first, last)
        theirs = self.theirs.segment(other, first, last)
        if [line.strip() for line in ours] == [line.strip() for line in theirs]:
            return ours
        if first == last:
            text = both_inserted("".join(ours), "".join(theirs))
        else:
            base = self.base[first:last]
            text = merge_tokens(
                "".join(ours), "".join(base), "".join(theirs), backwards=self.backwards
            )
        return None if text is None else text.splitlines(keepends=True)

    def _moved(self, lines: list[str], other: _Side, first: int, last: int) -> list[str] | None:
        """Lines of a side, shifted as the other side shifted what is there."""
        if first < last:
            shifts = {one for one in other.shifts[first:last] if one is not None}
            by = shifts.pop() if len(shifts) == 1 else None if shifts else 0
        else:
            by = self._shift_between(lines, other, first)
        return None if by is None else [shifted(line, by) for line in lines]

    def _shift_between(self, lines: list[str], other: _Side, at: int) -> int | None:
        """How far the other side shifted a place between two lines; None if that is not clear."""
        full = [number for number, line in enumerate(self.base) if line.strip()]
        above = max((number for number in full if number < at), default=None)
        below = min((number for number in full if number >= at), default=None)
        # What is around the region is the same in all sides.
        sides = [(0 if one is None else other.shifts[one], one) for one in (above, below)]
        known = [(shift, one) for shift, one in sides if shift is not None]
        if len({shift for shift, _ in known}) == 1:
            return known[0][0]
        if any(one is None for _, one in known):
            return None
        first = next((line for line in lines if line.strip()), "")
        fitting = [
            shift
            for shift, one in known
            if one is not None and indent(self.base[one]) == indent(first)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _is_clear(self, parts: Sequence[Cluster]) -> bool:
        """Whether changes that touch each other leave no doubt about their order."""
        spans = [_span(part) for part in parts]
        for number, part in enumerate(parts):
            if part[0]:
                continue
            first, last = spans[number]
            above = parts[number - 1][0] if number and spans[number - 1][1] == first else []
            following = parts[number + 1 : number + 2]
            below = following[0][0] if following and _span(following[0])[0] == last else []
            if above and not self._is_alike(above):
                return False
            # What is added stays below the line that upstream left as it was.
            stays = first == last and not above
            if below and not stays and not self._is_alike(below):
                return False
        return True

    def _is_alike(self, hunks: list[SideHunk]) -> bool:
        """Whether upstream only added or removed lines, or changed each of them a little."""
        first, last = hunks[0].first, hunks[-1].last
        own, before = self.ours.segment(hunks, first, last), self.base[first:last]
        if not before or not own:
            return True
        return len(own) == len(before) and all(
            SequenceMatcher(None, a.strip(), b.strip(), autojunk=False).ratio() >= _ALIKE
            for a, b in zip(own, before, strict=True)
        )


def _span(part: Cluster) -> tuple[int, int]:
    both = [*part[0], *part[1]]
    return min(one.first for one in both), max(one.last for one in both)


def indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def shifted(line: str, by: int) -> str:
    """A line with more or fewer blanks before it."""
    if not by or not line.strip():
        return line
    return " " * max(0, indent(line) + by) + line.lstrip(" ")
