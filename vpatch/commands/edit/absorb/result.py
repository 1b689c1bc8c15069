"""What became of the hunks of a series' work tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.edit.absorb.owners import Hunk
    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.commands.edit.states import StateChange


@dataclass(frozen=True)
class AbsorbedPatch:
    """A patch that got hunks."""

    result: RefreshedPatch
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True)
class RemainingHunk:
    """A hunk that stays in the work tree: its place, and why."""

    where: str
    reason: str


@dataclass(frozen=True)
class AbsorbedSeries:
    """A series whose patches say what the work tree says, but for what remains.

    Attributes:
        folder: the checkout.
        version: the release that the series was edited on.
        patches: those that got hunks, in order.
        remaining: the hunks that are in no patch.
        series: the states of all patches on the release.
        checkout: the checkout, where it stays; `kept_for` has more reasons than hunks.
    """

    folder: Path
    version: str
    patches: tuple[AbsorbedPatch, ...]
    remaining: tuple[RemainingHunk, ...]
    series: tuple[StateChange, ...]
    checkout: Path | None
    kept_for: tuple[str, ...]

    @property
    def needs_a_person(self) -> bool:
        """Whether something stops now, or is in no patch."""
        worse = any(one.is_worse for one in self.series)
        patches = any(one.result.needs_a_person for one in self.patches)
        return worse or patches or bool(self.remaining or self.kept_for)
