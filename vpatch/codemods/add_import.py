"""Add an import to the modules that need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.base import EditOutcome, EditSite, PatternEdit
from vpatch.codemods.import_place import with_import
from vpatch.codemods.module_names import ModuleName, module_names, names_imported
from vpatch.codemods.pattern import EditError, find_in, parse_code
from vpatch.codemods.reduced import Reading, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.import_order import Node


@dataclass(frozen=True)
class AddImport(PatternEdit):
    """Import one name in each module that has a match of `sought`.

    It is done where the name is that thing already, however that is written: `from a import b` is
    `import a.b as b`. An import in a `try` counts, and one for type checkers alone does not. Where
    the module binds the name to something else, that is a problem.
    """

    node: Node

    @property
    def reading(self) -> Reading:
        # All imports say where this one goes, and all else that binds the name is in its way.
        names = [self.sought.names, frozenset([b"import"]), frozenset([self._name.encode()])]
        # A definition below it has another number of blank lines above it than an `if`.
        return Reading(names, unit_of(self.sought), "neighbours", ifs=False)

    @property
    def _name(self) -> str:
        return next(names_imported(self.node))[0]

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        if not find_in(self.sought, module, extents.spellings(module)):
            return EditOutcome(module, ())
        there = [each for each in module_names(module) if each.name == self._name]
        if self._is_there(there):
            return EditOutcome(module, (EditSite(module, "", todo=False),))
        problem = self._in_the_way(there)
        site = EditSite(module, "", todo=True, problem=problem)
        return EditOutcome(module if problem else with_import(module, self.node), (site,))

    def _is_there(self, there: Sequence[ModuleName]) -> bool:
        """Whether the module has the name already, and the module that `import a.b` loads."""
        _, thing, whole = next(names_imported(self.node))
        same = [each for each in there if each.thing == thing and self._counts(each, there)]
        return any(not whole or f"{each.whole}.".startswith(f"{whole}.") for each in same)

    def _counts(self, one: ModuleName, there: Sequence[ModuleName]) -> bool:
        """Whether an import binds its name when the module runs.

        One for type checkers alone counts if the `else` beside it binds the name, too.
        """
        if one.guard != "type checkers":
            return one.guard in {"none", "try"}
        return any(each.owner is one.owner and each.guard == "branch" for each in there)

    def _in_the_way(self, there: Sequence[ModuleName]) -> str | None:
        """What else the module binds the name to."""
        name, thing, _ = next(names_imported(self.node))
        for each in there:
            if each.thing == thing:
                continue
            if each.thing is not None and _may_be(each.thing, thing):
                return f"`{each.code}` is there, and whether that is the same {name} is not known"
            return f"{name} is something else there: `{each.code}`"
        return None


def _may_be(one: str, other: str) -> bool:
    """Whether a relative and an absolute import may be of one thing."""
    if one.startswith(".") == other.startswith("."):
        return False
    tails = [f".{each.lstrip('.')}" for each in (one, other)]
    return tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])


def parse_import(source: str) -> Node:
    """Parse one import of one name.

    Raises:
        PatternError: it is anything else.
    """
    match parse_code(source):
        case [cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom() as node])] if (
            not isinstance(node.names, cst.ImportStar) and len(node.names) == 1
        ):
            return node
    raise EditError(
        f"add-import takes one import of one name, not {source.strip()!r}",
        hint="write one edit for each name",
    )
