"""The results of `edit` and `refresh`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vpatch.console.document import OutputModel
from vpatch.planning.state import State


class EditOutput(OutputModel):
    """The result of `vpatch edit`."""

    id: str
    folder: Path
    outcome: Literal["created", "unchanged", "aborted"]
    version: str | None
    """The release; null where the source is not a release."""
    files: list[str]
    """The files that the patch changes; empty unless the checkout is new."""
    earlier: list[str]
    """The patches below it in the checkout."""
    later: list[str]
    """The patches of the series that are not in the checkout."""


class StateChangeOutput(OutputModel):
    """What a patch means, before and after."""

    patch: str
    version: str
    before: State
    after: State
    reason: str
    """A sentence for people, about the state after."""


class RefreshOutput(OutputModel):
    """The result of `vpatch refresh`."""

    id: str
    folder: Path
    version: str
    """The release that the patch was edited on."""
    written: bool
    """False if the patch says what the work tree says already."""
    diff: str
    """What changes in patch.yaml and in the files beside it."""
    same: int
    """How many edits stay word for word."""
    total: int
    """How many edits there were."""
    by_text: list[str]
    """Sentences for people: places that go by text, and why."""
    examples: list[str]
    """Sentences for people: examples that do not hold as they were."""
    series: list[StateChangeOutput]
    """The patches of the series, on the release."""
    releases: list[StateChangeOutput]
    """The patch, on other releases."""
    checkout: Path | None
    """The folder of the edit, where it stays."""
    kept_for: list[str]
    """Sentences for people: what of the work tree is in no patch."""
