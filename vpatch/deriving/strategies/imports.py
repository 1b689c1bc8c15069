"""Imports that a file has more than before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, Declared
from vpatch.deriving.code import named
from vpatch.deriving.source_code import Definition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Import = ast.Import | ast.ImportFrom


def imported_names(case: Case) -> Iterator[Candidate]:
    """Propose `add-import` where an import has further names."""
    if case.pair is None:
        return
    old, new = case.pair.old, case.pair.new
    if not isinstance(old, ast.ImportFrom) or not isinstance(new, ast.ImportFrom):
        return
    known = {ast.dump(each) for each in old.names}
    further = [each for each in new.names if ast.dump(each) not in known]
    if (old.module, old.level) == (new.module, new.level) and known <= set(
        map(ast.dump, new.names)
    ):
        yield from _additions(case, [(new, each) for each in further])


def new_imports(case: Case) -> Iterator[Candidate]:
    """Propose `add-import` for statements that import."""
    new = [statement.node for statement in case.difference.new]
    if case.difference.old or not new or case.scope:
        return
    if all(isinstance(node, _Import) for node in new):
        pairs = [(node, each) for node in new for each in node.names]  # type: ignore[attr-defined]
        yield from _additions(case, pairs)


def _additions(case: Case, names: Sequence[tuple[ast.stmt, ast.alias]]) -> Iterator[Candidate]:
    edits: list[Declared] = []
    for node, name in names:
        beside = _user_of(case, name.asname or name.name.partition(".")[0])
        if beside is None or name.name == "*":
            return
        source: ast.stmt = ast.Import([name])
        if isinstance(node, ast.ImportFrom):
            source = ast.ImportFrom(node.module, [name], node.level)
        edits.append({"add-import": ast.unparse(source), "beside": beside})
    if edits:
        yield Candidate("add-import", tuple(edits))


def _user_of(case: Case, name: str) -> str | None:
    """A pattern of the definition that uses a name, or else of the first one.

    It is one that the file has before, too.
    """
    known = {statement.name for statement in case.before.block.statements}
    definitions = [
        statement.node
        for statement in case.after.block.statements
        if isinstance(statement.node, Definition) and statement.node.name in known
    ]
    users = (node for node in definitions if _uses(node, name))
    node = next(users, definitions[0] if definitions else None)
    return None if node is None else named(case.after, node)[0]


def _uses(root: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(root))
