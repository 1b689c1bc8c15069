"""Mutations of expressions: computed elsewhere."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from mutants.mutant import Family, Mutant, Spot
from mutants.source import Function, Source, own

if TYPE_CHECKING:
    from random import Random

_LAZY = (
    *(ast.BoolOp, ast.IfExp, ast.Lambda, ast.JoinedStr, ast.comprehension, ast.Yield),
    *(ast.ListComp, ast.GeneratorExp, ast.DictComp),
)
_SIMPLE = ast.Assign | ast.AnnAssign | ast.Expr | ast.Return | ast.AugAssign


def _expressions(spot: Spot, function: Function) -> list[tuple[ast.expr, ast.stmt]]:
    """Expressions that may be computed before their statement, with the statement."""
    kinds = ast.Call | ast.BinOp | ast.Attribute | ast.Subscript | ast.Compare
    found = []
    for node in own(function):
        if isinstance(node, kinds) and not isinstance(getattr(node, "ctx", None), ast.Store):
            statement = _before(spot.source, node)
            if statement is not None:
                found.append((node, statement))
    return found


def _before(source: Source, node: ast.expr) -> ast.stmt | None:
    """The statement before which an expression may be computed."""
    chain: list[ast.AST] = []
    for up in source.above(node):
        chain.append(up)
        if isinstance(up, ast.stmt):
            break
    statement, parent = chain[-1], chain[0]
    lazy = any(isinstance(up, _LAZY) for up in chain)
    if lazy or not isinstance(statement, _SIMPLE) or not source.whole_lines(statement):
        return None
    is_part = isinstance(parent, ast.Attribute | ast.Subscript | ast.Expr) or (
        isinstance(parent, ast.Call) and parent.func is node
    )
    if is_part or any(isinstance(n, ast.Starred) for n in ast.walk(node)):
        return None
    kept: list[ast.expr] = list(getattr(statement, "targets", []))
    kept += [
        getattr(statement, name) for name in ("target", "annotation") if hasattr(statement, name)
    ]
    inside = any(node is n for part in kept for n in ast.walk(part))
    return None if inside else statement


def hoist_local(spot: Spot, rng: Random) -> Mutant | None:
    function = spot.function(rng)
    found = _expressions(spot, function) if function else []
    if not found:
        return None
    node, statement = rng.choice(found)
    source = spot.source
    name = rng.choice(["value_", "tmp", "hoisted"])
    at = source.start_of_line(statement)
    text = f"({source.text(node)})" if node.lineno != node.end_lineno else source.text(node)
    return spot.made(
        [
            (at, at, f"{source.indent(statement)}{name} = {text}\n"),
            (*source.span(node), name),
        ]
    )


def hoist_helper(spot: Spot, rng: Random) -> Mutant | None:
    """Compute an expression in a function of the module."""
    function = spot.function(rng)
    found = _expressions(spot, function) if function else []
    if not found or function is None:
        return None
    node, _ = rng.choice(found)
    source = spot.source
    read = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    bound = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)} | {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if "super" in read:
        return None
    names = [n for n in dict.fromkeys(read) if n in bound]
    at = source.start_of_line(source.top(node))
    helper = f"def _helper({', '.join(names)}):\n    return {ast.unparse(node)}\n\n\n"
    return spot.made([(at, at, helper), (*source.span(node), f"_helper({', '.join(names)})")])


def inline_local(spot: Spot, rng: Random) -> Mutant | None:
    """Put a local's value where it is read, if that is once and in the next statement."""
    function = spot.function(rng)
    if function is None:
        return None
    found = []
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    for block in blocks(function):
        for one, two in itertools.pairwise(block):
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    used = [n for n in names if n.id == name]
                    reads = [n for n in ast.walk(two) if isinstance(n, ast.Name) and n.id == name]
                    if len(used) == 2 and len(reads) == 1 and isinstance(two, _SIMPLE):  # noqa: PLR2004
                        found.append((one, value, reads[0]))
    found = [f for f in found if spot.source.whole_lines(f[0])]
    if not found:
        return None
    one, value, read = rng.choice(found)
    source = spot.source
    if any(isinstance(up, ast.JoinedStr | ast.Lambda) for up in source.above(read)):
        return None
    start, end = source.start_of_line(one), source.end_of_line(one)
    return spot.made([(start, end, ""), (*source.span(read), f"({source.text(value)})")])


def blocks(function: ast.AST) -> list[list[ast.stmt]]:
    found = []
    for node in [function, *own(function)]:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                found.append(block)
    return found


FAMILIES = [
    Family("expressions/local", "harmless", hoist_local),
    Family("expressions/helper", "harmless", hoist_helper),
    Family("expressions/inlined", "harmless", inline_local),
]
