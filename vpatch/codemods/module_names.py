"""The names that a module binds outside of functions and classes, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import libcst as cst

from vpatch.codemods.binding import bound_by_header, imported, parts_inside
from vpatch.codemods.names import bound_names
from vpatch.codemods.nodes import DEFINITIONS, code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_Guard = Literal["none", "type checkers", "try", "branch"]


@dataclass(frozen=True)
class ModuleName:
    """A name that a statement binds.

    `thing` is the dotted name of what an import binds it to; None for any other statement. `whole`
    is the module that `import a.b` loads, which binds `a`. `guard` is what the outermost block
    around it is, and `owner` that block, or the statement itself.
    """

    name: str
    thing: str | None
    node: cst.CSTNode
    guard: _Guard
    owner: cst.CSTNode
    whole: str = ""

    @property
    def code(self) -> str:
        """The first line of the statement."""
        bare = (
            self.node.with_changes(leading_lines=())
            if hasattr(self.node, "leading_lines")
            else self.node
        )
        return code_of(bare).strip().partition("\n")[0]


def names_imported(node: cst.Import | cst.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Each name that an import binds, what it is, and the module that `import a.b` loads."""
    pairs = zip(imported(node), imported(node, whole=True), strict=True)
    for (name, thing), (_, whole) in pairs:
        yield name, thing, whole if isinstance(node, cst.Import) and whole != thing else ""


def module_names(module: cst.Module) -> Iterator[ModuleName]:
    """The names that a module binds when it is imported, in the order of the code."""
    for statement in module.body:
        yield from _names(statement, "none", statement)


def _names(statement: cst.CSTNode, guard: _Guard, owner: cst.CSTNode) -> Iterator[ModuleName]:
    if isinstance(statement, cst.SimpleStatementLine):
        for small in statement.body:
            if isinstance(small, (cst.Import, cst.ImportFrom)):
                for name, thing, whole in names_imported(small):
                    yield ModuleName(name, thing, small, guard, owner, whole)
            else:
                for name in bound_names(small):
                    yield ModuleName(name, None, small, guard, owner)
        return
    for name in bound_by_header(statement):
        yield ModuleName(name, None, statement, guard, owner)
    if isinstance(statement, DEFINITIONS):
        return
    inner = _guard_of(statement) if guard == "none" else guard
    for part, block in parts_inside(statement):
        is_else = inner == "type checkers" and part == "orelse"
        for each in block:
            yield from _names(each, "branch" if is_else else inner, owner)


def _guard_of(statement: cst.CSTNode) -> _Guard:
    if isinstance(statement, (cst.Try, cst.TryStar)):
        return "try"
    if isinstance(statement, cst.If) and code_of(statement.test).strip("() ").endswith(
        "TYPE_CHECKING"
    ):
        is_not = code_of(statement.test).strip("() ").startswith("not")
        return "branch" if is_not else "type checkers"
    return "branch"
