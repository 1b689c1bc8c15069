"""A variable of a module or class that has another value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, one
from vpatch.deriving.code import Pair, same

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG = 200


def values(case: Case) -> Iterator[Candidate]:
    """Propose `set-value`."""
    if case.pair is None or case.difference.blocks[0].in_function:
        return
    match case.pair.old, case.pair.new:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=was),
            ast.Assign(targets=[ast.Name(id=other)], value=value),
        ):
            pass
        case (
            ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as was, annotation=kind),
            ast.AnnAssign(target=ast.Name(id=other), value=ast.expr() as value, annotation=kinds),
        ) if same(kind, kinds):
            pass
        case _:
            return
    old, new = Pair(was, value, case.pair.sources).texts
    if name == other and len(old) + len(new) < _LONG and old != new:
        symbol = ".".join([*case.scope, name])
        yield one("set-value", {"set-value": new, "of": symbol, "was": old})
