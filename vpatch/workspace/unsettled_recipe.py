"""A recipe that `vpatch bump --write` left unsettled: nothing is made of it until a person did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.library.catalog import Library

_SHOWN = 4


class UnsettledRecipeError(VpatchError):
    """Patches of a recipe do not fit its release yet."""

    code = "library.unsettled-recipe"


def refuse_unsettled(path: Path, library: Library) -> None:
    """Refuse a recipe that is unsettled.

    Raises:
        UnsettledRecipeError: it is.
    """
    unsettled = library.recipe_selection(path).unsettled
    if unsettled is None:
        return
    patches, release = unsettled.patches, unsettled.release
    raise UnsettledRecipeError(
        f"the recipe {path.stem} is unsettled: {listed(list(patches), _SHOWN)} "
        f"{'does' if len(patches) == 1 else 'do'} not fit vLLM {release} yet",
        where=library.read_recipe(path)[1].where(["unsettled"]),
        hint=f"run {edit_command(patches[0], release)} and vpatch refresh {patches[0]}"
        f"{', the same for the others,' if len(patches) > 1 else ','} then vpatch bump --continue",
    )


def edit_command(patch_id: str, release: str) -> str:
    """The command that a person begins with to settle a patch."""
    return f"vpatch edit {patch_id} --vllm {release}"
