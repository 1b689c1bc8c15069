"""The results of `list` and `show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vpatch.console.document import OutputModel, read_from

if TYPE_CHECKING:
    from vpatch.library.patch import Patch


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


class ShowOutput(OutputModel):
    """The result of `vpatch show`."""

    id: str
    digest: str
    folder: Path
    declaration: dict[str, Any]
    """What patch.yaml declares, with the keys of that file: see `vpatch schema patch`."""

    @classmethod
    def of(cls, patch: Patch) -> Self:
        declared = patch.declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
        return cls(id=patch.id, digest=patch.digest, folder=patch.folder, declaration=declared)
