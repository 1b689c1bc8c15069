"""Values that a shell completes: ids of patches, names of recipes, and releases of vLLM."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vpatch.workspace.context import Context

# Each list has its values with commas between them.
_LISTED = ","


class _NameType(click.ParamType[str]):
    """A text that the shell completes with names; any other text is taken as well."""

    name = "text"

    def __init__(self, read_names: Callable[[Context], Iterable[str]], *, listed: bool) -> None:
        self._read_names = read_names
        self._listed = listed

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        before, comma, begun = (
            incomplete.rpartition(_LISTED) if self._listed else ("", "", incomplete)
        )
        names: list[str] = []
        # There is nobody to tell of a project that cannot be read, or of an empty cache.
        with suppress(VpatchError, OSError):
            names = sorted(self._read_names(_context(ctx)))
        return [CompletionItem(f"{before}{comma}{one}") for one in names if one.startswith(begun)]


def _context(ctx: click.Context) -> Context:
    from vpatch.workspace.context import Context  # noqa: PLC0415 - only to complete

    patches_dirs, recipes_dirs = (
        ctx.params.get(name) or () for name in ("patches_dirs", "recipes_dirs")
    )
    return Context(patches_dirs, recipes_dirs, offline=True)


PATCH_ID = _NameType(lambda context: context.library.patches, listed=False)
RECIPE_NAME = _NameType(lambda context: context.library.recipes, listed=False)
RELEASE = _NameType(lambda context: [*context.releases(), "latest"], listed=False)
RELEASES = _NameType(lambda context: [*context.releases(), "all", "latest"], listed=True)
