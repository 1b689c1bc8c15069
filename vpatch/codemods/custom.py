"""An edit written in libcst itself: a `codemod.py` beside the patch, under the same promises."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.codemods.base import Outcome, Place, SiteTransformer
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import libcst as cst

    from vpatch.codemods.pattern import Pattern


@dataclass(frozen=True)
class Custom:
    """Run the `SiteTransformer` called `Codemod` of a Python file.

    It reports each place with `self.add(node, todo=...)`; the count, the second run that changes
    nothing and the post-condition are then checked as for every other edit.
    """

    transformer: type[SiteTransformer]
    contains: frozenset[bytes]
    place: Place

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (self.contains,)

    @property
    def sought(self) -> Pattern | None:
        return None

    def apply(self, module: cst.Module) -> Outcome:
        outcome = self.transformer(self.place).run(module)
        todo = any(site.todo for site in outcome.sites)
        if not todo and outcome.module.code != module.code:
            # It would be dropped, as the files to write are those with a place to edit.
            raise UsageError(
                "the codemod changes code without reporting the place",
                todo="call self.add(node, todo=True) where it changes something",
            )
        return outcome


def load_codemod(path: Path) -> type[SiteTransformer]:
    """Import the class `Codemod` from `path`.

    Raises:
        UsageError: there is no such class, or the file cannot be imported.
    """
    spec = importlib.util.spec_from_file_location(f"vpatch_codemod_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise UsageError("not a Python file", where=str(path))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever its author's code may raise
        raise UsageError(f"cannot be imported: {error}", where=str(path)) from error
    found = getattr(module, "Codemod", None)
    if not (isinstance(found, type) and issubclass(found, SiteTransformer)):
        raise UsageError(
            "defines no class Codemod(SiteTransformer)",
            where=str(path),
            todo="derive it from vpatch.codemods.SiteTransformer",
        )
    return found
