"""The results of `list` and `show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator

from vpatch.console.document import OutputModel, read_from
from vpatch.planning.state import State

if TYPE_CHECKING:
    from vpatch.library.patch import Patch


_Diff = Annotated[str, BeforeValidator(lambda diff: diff.decode(errors="backslashreplace"))]


class ListedPatchOutput(OutputModel):
    id: str
    title: str = read_from("declaration.title")
    needed_in: dict[str, str] = read_from("declaration.needed_in")
    """The range of versions that the patch claims, by the name of the tree."""
    digest: str
    folder: Path


class ListedRecipeOutput(OutputModel):
    name: str
    file: Path


class ListOutput(OutputModel):
    """The result of `vpatch list`."""

    patches: list[ListedPatchOutput]
    recipes: list[ListedRecipeOutput]


class EffectOutput(OutputModel):
    """What a patch makes of a tree."""

    tree: str = read_from("pin.tree")
    version: str | None = read_from("pin.version")
    """Null for code without one."""
    recipe: str | None
    """The recipe whose patches are applied before; null without one."""
    state: State = read_from("decision.state")
    reason: str = read_from("decision.reason")
    """A sentence for people."""
    files: list[str] = read_from("decision.files")
    """The files that the patch changes, sorted."""
    diff: _Diff
    """A unified diff; empty if the patch is not needed there. What is not UTF-8 is escaped."""


class ShowOutput(OutputModel):
    """The result of `vpatch show`."""

    id: str
    digest: str
    folder: Path
    declaration: dict[str, Any]
    """What patch.yaml declares, with the keys of that file: see `vpatch schema patch`."""
    effects: list[EffectOutput]
    """One for each tree that the patch is for; empty without `--diff`."""

    @classmethod
    def of(cls, patch: Patch, effects: list[EffectOutput]) -> Self:
        declared = patch.declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
        return cls(
            id=patch.id,
            digest=patch.digest,
            folder=patch.folder,
            declaration=declared,
            effects=effects,
        )
