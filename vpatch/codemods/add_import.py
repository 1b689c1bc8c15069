"""Add an import to the modules that need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor, ImportItem
from libcst.helpers import get_full_name_for_node, get_full_name_for_node_or_raise

from vpatch.codemods.base import EditOutcome, EditSite, Scope
from vpatch.codemods.pattern import Pattern, PatternError, find_in, parse_code
from vpatch.codemods.reduced import Reading, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.extent import Extents


@dataclass(frozen=True)
class AddImport:
    """Import `item` in each module that has a match of `beside`."""

    item: ImportItem
    beside: Pattern

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (self.beside.needles,)

    @property
    def reading(self) -> Reading:
        # libcst looks at all imports, in functions too, and for the place below the docstring.
        names = [self.beside.names, frozenset([b"import"])]
        return Reading(names, unit_of(self.beside), "neighbours")

    @property
    def place(self) -> Scope:
        return Scope()

    @property
    def sought(self) -> Pattern:
        return self.beside

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        if not find_in(self.beside, module, extents.spellings(module)):
            return EditOutcome(module, ())
        if self.item in _imports(module.body):
            return EditOutcome(module, (EditSite(module, "", todo=False),))
        visitor = AddImportsVisitor(CodemodContext(), [self.item])
        return EditOutcome(
            visitor.transform_module_impl(module), (EditSite(module, "", todo=True),)
        )


def parse_import(source: str) -> ImportItem:
    """Parse one import of one name.

    Raises:
        PatternError: it is anything else.
    """
    statements = parse_code(source)
    items = _imports(statements)
    if len(statements) != 1 or len(items) != 1:
        raise PatternError(
            f"add-import takes one import of one name, not {source.strip()!r}",
            hint="write one edit for each name",
            code="codemods.wrong-edit",
        )
    return items[0]


def _imports(body: Sequence[cst.BaseStatement]) -> list[ImportItem]:
    """The imports among some statements."""
    found: list[ImportItem] = []
    for line in body:
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(statement, cst.Import):
                found += [
                    ImportItem(get_full_name_for_node_or_raise(n.name), alias=n.evaluated_alias)
                    for n in statement.names
                ]
            elif isinstance(statement, cst.ImportFrom) and not isinstance(
                statement.names, cst.ImportStar
            ):
                name = get_full_name_for_node(statement.module) if statement.module else None
                found += [
                    ImportItem(
                        name or "", n.evaluated_name, n.evaluated_alias, len(statement.relative)
                    )
                    for n in statement.names
                ]
    return found
