"""The result of `refresh`."""

from __future__ import annotations

from vpatch.commands.edit.output import (
    AbsorbedPatchOutput,
    RefreshedPatchOutput,
    RemainingHunkOutput,
)
from vpatch.commands.importing.output import ImportedPatchOutput  # noqa: TC001 - pydantic reads it


class RefreshOutput(RefreshedPatchOutput):
    """The result of `vpatch refresh`."""

    absorbed: list[AbsorbedPatchOutput]
    """The patches of a series that got changes; empty where one patch was edited."""
    remaining: list[RemainingHunkOutput]
    """The changes of a series that no patch got."""
    new: ImportedPatchOutput | None = None
    """With `--into` alone: the new patch. The patches that were edited stay as they are."""
    after: str | None = None
    """With `--into` alone: the patch that the new one comes behind in the recipe."""
    failure: str | None = None
    """With `--into` alone, a sentence for people: why the new patch does not apply there."""
