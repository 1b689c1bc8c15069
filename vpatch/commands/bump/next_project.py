"""The project as a bump makes it, before any of it is written there: to lock and to prove it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.library.patch import DECLARATION
from vpatch.library.shapes import SHAPES
from vpatch.trust.store import content_of
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.trust.decision import Trust
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class StagedRecipe:
    """The text of a new recipe: where it goes, and which recipe it is made of."""

    text: bytes
    path: Path
    original: Path


@contextmanager
def staged(
    context: Context, recipes: Mapping[str, StagedRecipe], patches: Mapping[str, str]
) -> Iterator[Context]:
    """Open a context with new recipes, by name, and new declarations of patches, by id.

    The user trusts a new file as far as the one that it is made of. Relative paths in a recipe
    are taken from where it goes.
    """
    library, trust = context.library, context.trust
    with scratch_folder() as place:
        new_recipes, homes, new_patches = {}, {}, {}
        for name, recipe in recipes.items():
            path = Path(place, "recipes", f"{name}{recipe.path.suffix}")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(recipe.text)
            trust.derive(path, recipe.original, content_of(recipe.original))
            new_recipes[name], homes[path] = path, recipe.path
        for patch_id, text in patches.items():
            new_patches[patch_id] = Path(place, "patches", patch_id)
            _copy(library.patches[patch_id], new_patches[patch_id], text, trust)
        changed = replace(
            library,
            patches={**library.patches, **new_patches},
            recipes={**library.recipes, **new_recipes},
            homes={**library.homes, **homes},
        )
        yield context.with_library(changed)


def _copy(original: Path, folder: Path, declaration: str, trust: Trust) -> None:
    """Copy a patch with another declaration: exactly those bytes that the user may trust."""
    content = content_of(original)
    files = dict(content.files) | {DECLARATION: declaration.encode()}
    if (original / SHAPES).is_file():
        files[SHAPES] = (original / SHAPES).read_bytes()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    trust.derive(folder, original, content)
