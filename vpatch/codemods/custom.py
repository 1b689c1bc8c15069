"""An edit written in libcst itself: a `codemod.py` beside the patch, under the same promises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from vpatch.codemods.base import Outcome, Place, SiteTransformer
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import libcst as cst

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.pattern import Pattern


@dataclass(frozen=True)
class Custom:
    """Run the `SiteTransformer` called `Codemod` of a Python file.

    It reports each place with `self.add(node, todo=...)`; the count, the second run that changes
    nothing and the post-condition are then checked as for every other edit. The file is executed
    when the edit runs and not before: to list patches must not run their code.
    """

    source: bytes
    path: Path
    contains: frozenset[bytes]
    place: Place

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (self.contains,)

    @property
    def sought(self) -> Pattern | None:
        return None

    def apply(self, module: cst.Module, extents: Extents) -> Outcome:
        outcome = load_codemod(self.source, self.path)(self.place).run(module, extents)
        todo = any(site.todo for site in outcome.sites)
        if not todo and outcome.module.code != module.code:
            # It would be dropped, as the files to write are those with a place to edit.
            raise UsageError(
                "the codemod changes code without reporting the place",
                where=str(self.path),
                todo="call self.add(node, todo=True) where it changes something",
            )
        return outcome


@cache
def load_codemod(source: bytes, path: Path) -> type[SiteTransformer]:
    """Execute `source` and return its class `Codemod`.

    Not imported by its path: bytecode that was kept for a file of the same size and time would run
    under a digest that is not its own.

    Raises:
        UsageError: there is no such class, or the code fails.
    """
    module = ModuleType(f"vpatch_codemod_{path.parent.name}")
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102
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
