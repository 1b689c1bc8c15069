"""What a refresh is asked for, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.edit.states import StateChange

_SHOWN = 3


@dataclass(frozen=True)
class RefreshRequest:
    """Which edit to end, and the releases to compare."""

    patch_id: str | None
    checkout: Path | None
    releases: str | None


@dataclass(frozen=True)
class RefreshedPatch:
    """A patch that says what the work tree says.

    Attributes:
        id: the patch.
        folder: where it lies.
        version: the release that it was edited on.
        written: whether it differs from what it was.
        variant: the name of the variant that is new; None if there is none.
        diff: the lines of the differences of its files, in bytes.
        same: how many of its edits stay word for word, of `total` before.
        by_text: places that go by text, with the reasons.
        examples: what became of examples that did not hold as they were.
        examples_hold: whether these hold now.
        series: the states of the series' patches on the release.
        releases: the states of the patch on other releases.
        checkout: the folder of the edit, where it stays; `kept_for` says why.
    """

    id: str
    folder: Path
    version: str
    written: bool
    variant: str | None
    diff: tuple[bytes, ...]
    same: int
    total: int
    by_text: tuple[str, ...]
    examples: tuple[str, ...]
    examples_hold: bool
    series: tuple[StateChange, ...]
    releases: tuple[StateChange, ...]
    checkout: Path | None
    kept_for: tuple[str, ...]

    @property
    def diff_text(self) -> str:
        """The lines of the differences as text."""
        return b"".join(self.diff).decode(errors="replace")

    @property
    def open_points(self) -> list[str]:
        """What needs a person, as sentences without an end."""
        worse = [one for one in (*self.series, *self.releases) if one.is_worse]
        points = [f"{one.patch} stops an apply on {one.version}" for one in worse[:_SHOWN]]
        if worse[_SHOWN:]:
            points.append(f"and on {len(worse) - _SHOWN} more")
        if not self.examples_hold:
            points.append("an example does not hold")
        if self.kept_for:
            points.append("the work tree has what is in no patch")
        return points

    @property
    def needs_a_person(self) -> bool:
        """Whether something stops now, or is not in the patch."""
        return bool(self.open_points)
