"""Which patch of a series each hunk of a work tree belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.planning.outline import is_python, outline
from vpatch.planning.references import changed_definitions
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Change, Plan

_SHOWN = 4


@dataclass(frozen=True)
class Hunk:
    """Lines of a file that somebody changed, numbered from 0: `first` to `last` of the old file.

    `new_first` to `new_last` are those of the new file. A file that comes or goes is one hunk.
    """

    path: str
    first: int
    last: int
    new_first: int
    new_last: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.new_first + 1}"


@dataclass(frozen=True)
class OwnedHunk:
    """A hunk and its patch; where no patch is the only one, `reason` says why."""

    hunk: Hunk
    owner: str | None
    reason: str = ""


@dataclass(frozen=True)
class _Version:
    """A file before and after a patch of the series."""

    patch: str
    change: Change


@dataclass(frozen=True)
class HunkOwners:
    """Finds the patch of each hunk. `decided` is the series that the work tree began with."""

    decided: Plan

    def of_file(self, path: str, before: bytes | None, after: bytes | None) -> list[OwnedHunk]:
        """The hunks of a file that differs: as the series makes it, and as it is now."""
        versions = [
            _Version(one.patch.id, one.changes[path])
            for one in self.decided.taken
            if path in one.changes
        ]
        if before is None:
            return [OwnedHunk(Hunk(path, 0, 0, 0, 0), None, "it is a new file")]
        if after is None:
            makers = {one.patch for one in versions}
            whole = Hunk(path, 0, len(_lines(before)), 0, 0)
            return [_owned(whole, makers)]
        file = _EditedFile(path, before, after, versions)
        return [file.owned(hunk) for hunk in hunks_of(path, before, after)]


def hunks_of(path: str, before: bytes, after: bytes) -> Iterator[Hunk]:
    """What differs between two texts, line by line."""
    matcher = SequenceMatcher(None, _lines(before), _lines(after), autojunk=False)
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag != "equal":
            yield Hunk(path, first, last, new_first, new_last)


def with_hunks(before: bytes | None, after: bytes | None, hunks: Sequence[Hunk]) -> bytes | None:
    """The old file with some of its hunks; None if it goes."""
    if before is None or after is None:
        return after if hunks else before
    old, new = _lines(before), _lines(after)
    for hunk in sorted(hunks, key=lambda one: one.first, reverse=True):
        old[hunk.first : hunk.last] = new[hunk.new_first : hunk.new_last]
    return b"".join(old)


def _lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


def _owned(hunk: Hunk, patches: set[str]) -> OwnedHunk:
    if len(patches) == 1:
        return OwnedHunk(hunk, *patches)
    if not patches:
        return OwnedHunk(hunk, None, "no patch of the series changes this code")
    return OwnedHunk(hunk, None, f"{listed(sorted(patches), _SHOWN)} change this code")


class _EditedFile:
    """A file that the series makes, and what somebody made of it."""

    def __init__(
        self, path: str, before: bytes, after: bytes, versions: Sequence[_Version]
    ) -> None:
        self._lines = _lines(before)
        self._writers = _writers(versions) if versions else [None] * len(self._lines)
        self._before = outline(before, python=is_python(path))
        self._after = outline(after, python=is_python(path))
        self._changed: Mapping[str, set[str]] = {
            one.patch: {each.key for each in changed_definitions(path, one.change)}
            for one in versions
        }

    def owned(self, hunk: Hunk) -> OwnedHunk:
        """The patch that wrote the lines, or else the one that changes their definitions."""
        writers = self._writers_of(hunk)
        if writers:
            return _owned(hunk, writers)
        touched = self._touched(hunk)
        return _owned(hunk, {p for p, names in self._changed.items() if names & touched})

    def _writers_of(self, hunk: Hunk) -> set[str]:
        """The patches that wrote the lines that go; for lines that come, those on both sides."""
        if hunk.first < hunk.last:
            return {one for one in self._writers[hunk.first : hunk.last] if one is not None}
        above = next((n for n in range(hunk.first - 1, -1, -1) if self._lines[n].strip()), None)
        below = next(
            (n for n in range(hunk.first, len(self._lines)) if self._lines[n].strip()), None
        )
        sides = {None if n is None else self._writers[n] for n in (above, below)}
        return {one for one in sides if one is not None} if len(sides) == 1 else set()

    def _touched(self, hunk: Hunk) -> set[str]:
        known = {one.key for one in self._before}
        old = _touching(self._before, hunk.first, hunk.last)
        new = _touching(self._after, hunk.new_first, hunk.new_last)
        return old | new & known


def _writers(versions: Sequence[_Version]) -> list[str | None]:
    """For each line of a file, the patch that wrote it."""
    writers: list[str | None] = [None] * len(_lines(versions[0].change.before or b""))
    for one in versions:
        old, new = _lines(one.change.before or b""), _lines(one.change.after)
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        following: list[str | None] = []
        for tag, first, last, new_first, new_last in matcher.get_opcodes():
            if tag == "equal":
                following += writers[first:last]
            else:
                following += [one.patch] * (new_last - new_first)
        writers = following
    return writers


def _touching(definitions: Sequence[Definition], first: int, last: int) -> set[str]:
    """The definitions that lines are in, without those around them.

    Where no lines are, it is the definition that the place is in.
    """
    inside = [
        one
        for one in definitions
        if (one.first - 1 < last and first < one.last)
        or (first == last and one.first - 1 < first < one.last)
    ]
    return {
        one.key
        for one in inside
        if not any(
            (other.first, other.last) != (one.first, one.last)
            and one.first <= other.first
            and other.last <= one.last
            for other in inside
        )
    }
