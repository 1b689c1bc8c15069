"""The results of `edit` and `refresh`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vpatch.console.document import OutputModel
from vpatch.planning.state import State


class ConflictPlaceOutput(OutputModel):
    """A conflict in the checkout."""

    path: str
    line: int
    """The line at which it begins, from 1."""


class CarriedPatchOutput(OutputModel):
    """How a patch that does not fit the release was laid into it."""

    release: str
    """The release that the patch fits, whose change this is."""
    variant: str | None
    """The variant that fits there."""
    total: int
    """How many edits that has."""
    failing: list[str]
    """Sentences for people: the edits that do not find their places, and why."""
    proposal: str | None
    """A sentence for people: what `vpatch bump` proposes, if the change was laid in by that."""
    conflicts: list[ConflictPlaceOutput]
    """What somebody has to solve."""
    aside: list[str]
    """Sentences for people: parts of the change that have no place in the release."""
    doubts: list[str]
    """Sentences for people: what to look at, though no conflict is there."""


class EditOutput(OutputModel):
    """The result of `vpatch edit`."""

    id: str | None
    """The patch; null where a whole series is edited."""
    folder: Path
    outcome: Literal["created", "unchanged", "aborted"]
    version: str | None = None
    """The release; null where the source is not a release."""
    files: tuple[str, ...] = ()
    """The files that the patch changes; empty unless the checkout is new."""
    earlier: tuple[str, ...] = ()
    """The patches below it in the checkout; of a series, those that have a commit there."""
    later: tuple[str, ...] = ()
    """The patches of the series that are not in the checkout."""
    carried: CarriedPatchOutput | None = None
    """Null unless the patch does not fit the release, and the checkout is new."""
    diff: Path | None = None
    """With `--abort`, the file with what was changed in the checkout; null if that is nothing."""


class StateChangeOutput(OutputModel):
    """What a patch means, before and after."""

    patch: str
    version: str
    before: State
    after: State
    reason: str
    """A sentence for people, about the state after."""


class RemainingHunkOutput(OutputModel):
    """A change of the work tree that no patch got."""

    where: str
    """The file and the line."""
    reason: str
    """A sentence for people."""


class AbsorbedPatchOutput(OutputModel):
    """A patch of a series that got changes."""

    id: str
    folder: Path
    written: bool
    """False if the patch says this already."""
    hunks: list[str]
    """The file and the line of each change that it got."""
    diff: str
    """What changes in patch.yaml and in the files beside it."""
    same: int
    """How many edits stay word for word."""
    total: int
    """How many edits there were."""
    by_text: list[str]
    """Sentences for people: places that go by text, and why."""
    examples: list[str]
    """Sentences for people: examples that did not hold as they were."""
    examples_hold: bool
    """Whether these hold now."""
    releases: list[StateChangeOutput]
    """The patch, on other releases."""


class RefreshedPatchOutput(OutputModel):
    """What became of a patch."""

    id: str | None
    """The patch; null where a whole series was edited."""
    folder: Path
    """Where the patch lies; of a series, the folder of the edit."""
    version: str
    """The release that the patch was edited on."""
    written: bool
    """False if the patch says what the work tree says already."""
    variant: str | None
    """The variant that is new; null if there is none."""
    diff: str
    """What changes in patch.yaml and in the files beside it."""
    same: int
    """How many edits stay word for word."""
    total: int
    """How many edits there were."""
    by_text: list[str]
    """Sentences for people: places that go by text, and why."""
    examples: list[str]
    """Sentences for people: examples that did not hold as they were."""
    examples_hold: bool
    """Whether these hold now."""
    series: list[StateChangeOutput]
    """The patches of the series, on the release."""
    releases: list[StateChangeOutput]
    """The patch, on other releases."""
    checkout: Path | None
    """The folder of the edit, where it stays."""
    kept_for: list[str]
    """Sentences for people: what of the work tree is in no patch."""
