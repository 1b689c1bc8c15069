"""Mutations of statements: the same work, written otherwise."""

from __future__ import annotations

import ast
import itertools
import textwrap
from typing import TYPE_CHECKING, cast

from mutants.expressions import blocks
from mutants.mutant import Family, Mutant, Spot
from mutants.source import Function, Source, Span, own

if TYPE_CHECKING:
    from random import Random


def annotate(spot: Spot, rng: Random) -> Mutant | None:
    node = spot.node
    found = [
        n
        for n in (ast.walk(node) if node else ())
        if isinstance(n, ast.Assign)
        and len(n.targets) == 1
        and isinstance(n.targets[0], ast.Name | ast.Attribute)
    ]
    if not found:
        return None
    statement = rng.choice(found)
    end = spot.source.span(statement.targets[0])[1]
    return spot.made([(end, end, rng.choice([": object", ': "Any"', ": int | None"]))])


def annotate_not(spot: Spot, rng: Random) -> Mutant | None:
    node = spot.node
    source = spot.source
    found = [
        n
        for n in (ast.walk(node) if node else ())
        if isinstance(n, ast.AnnAssign)
        and n.value
        and not isinstance(source.parents.get(n), ast.ClassDef)
    ]
    if not found:
        return None
    statement = rng.choice(found)
    return spot.made([(source.span(statement.target)[1], source.span(statement.annotation)[1], "")])


def split_return(spot: Spot, rng: Random) -> Mutant | None:
    function = spot.function(rng)
    found = [
        n for n in (own(function) if function else ()) if isinstance(n, ast.Return) and n.value
    ]
    found = [n for n in found if spot.source.whole_lines(n)]
    if not found:
        return None
    statement = rng.choice(found)
    value_node = cast("ast.expr", statement.value)
    source = spot.source
    value = f"({source.text(value_node)})"
    start, end = source.span(statement)
    text = f"result_ = {value}\n{source.indent(statement)}return result_"
    return spot.made([(start, end, text)])


def join_locals(spot: Spot, rng: Random) -> Mutant | None:
    """Write two assignments that do not need each other as one of tuples."""
    function = spot.function(rng)
    found = []
    for block in blocks(function) if function else ():
        for one, two in itertools.pairwise(block):
            match one, two:
                case (
                    ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Assign(targets=[ast.Name() | ast.Attribute()]),
                ):
                    needs = any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(two))
                    if not needs:
                        found.append((one, two))
    source = spot.source
    found = [f for f in found if all(map(source.whole_lines, f))]
    if not found:
        return None
    one, two = rng.choice(found)
    targets = f"{ast.unparse(one.targets[0])}, {ast.unparse(two.targets[0])}"
    values = f"({ast.unparse(one.value)}, {ast.unparse(two.value)})"
    return spot.made([(source.span(one)[0], source.span(two)[1], f"{targets} = {values}")])


def _body(source: Source, block: list[ast.stmt], indent: str) -> str:
    text = "".join(source.block(statement) for statement in block)
    return textwrap.indent(textwrap.dedent(text), indent)


def negate(spot: Spot, rng: Random) -> Mutant | None:
    """Swap the branches of an `if`, with its test negated."""
    node = spot.node
    source = spot.source
    found = [
        n
        for n in (ast.walk(node) if node else ())
        if isinstance(n, ast.If)
        and source.whole_lines(n)
        and not source.block(n).strip().startswith("elif")
        and all(map(source.whole_lines, [*n.body, *n.orelse]))
        and not (len(n.orelse) == 1 and isinstance(n.orelse[0], ast.If))
    ]
    if not found:
        return None
    statement = rng.choice(found)
    indent = source.indent(statement)
    inner = f"{indent}    "
    orelse = _body(source, statement.orelse, inner) if statement.orelse else f"{inner}pass\n"
    text = (
        f"{indent}if not ({ast.unparse(statement.test)}):\n{orelse}"
        f"{indent}else:\n{_body(source, statement.body, inner)}"
    )
    return spot.made([(source.start_of_line(statement), source.end_of_line(statement), text)])


def early_return(spot: Spot, rng: Random) -> Mutant | None:
    """Return first where the last statement of a function is an `if` without `else`."""
    node = spot.node
    source = spot.source
    functions = [n for n in (ast.walk(node) if node else ()) if isinstance(n, Function)]
    found = [f.body[-1] for f in functions]
    ifs = [s for s in found if isinstance(s, ast.If) and not s.orelse and source.whole_lines(s)]
    ifs = [s for s in ifs if all(map(source.whole_lines, s.body))]
    if not ifs:
        return None
    statement = rng.choice(ifs)
    indent = source.indent(statement)
    text = (
        f"{indent}if not ({ast.unparse(statement.test)}):\n{indent}    return\n"
        f"{_body(source, statement.body, indent)}"
    )
    return spot.made([(source.start_of_line(statement), source.end_of_line(statement), text)])


def nest(spot: Spot, rng: Random) -> Mutant | None:
    """Put statements into a block that is always run."""
    return _within(spot, rng, "if True:", "")


def attempt(spot: Spot, rng: Random) -> Mutant | None:
    """Put statements into a `try` that hands on what is raised."""
    return _within(spot, rng, "try:", "except ValueError:\n    raise")


def _within(spot: Spot, rng: Random, head: str, tail: str) -> Mutant | None:
    function = spot.function(rng)
    source = spot.source
    found = [b for b in (blocks(function) if function else []) if all(map(source.whole_lines, b))]
    if not found:
        return None
    block = rng.choice(found)
    at = rng.randrange(len(block))
    some = block[at : at + rng.randint(1, 2)]
    if isinstance(source.parents.get(some[0]), ast.If) and source.block(
        some[0]
    ).lstrip().startswith("elif"):
        return None
    indent = source.indent(some[0])
    lines = "".join(f"{indent}{line}\n" for line in tail.splitlines())
    text = f"{indent}{head}\n{_body(source, some, f'{indent}    ')}{lines}"
    return spot.made([(source.start_of_line(some[0]), source.end_of_line(some[-1]), text)])


def extract_method(spot: Spot, rng: Random) -> Mutant | None:
    """Move one statement of a method that assigns to `self` into a method of its own."""
    node = spot.node
    source = spot.source
    function = spot.function(rng)
    if function is None or not isinstance(source.parents.get(function), ast.ClassDef):
        return None
    names = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)} | {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    found = [
        n
        for n in own(function)
        if isinstance(n, ast.Assign | ast.AnnAssign)
        and isinstance(n.targets[0] if isinstance(n, ast.Assign) else n.target, ast.Attribute)
        and source.whole_lines(n)
    ]
    if not found or node is None:
        return None
    statement = rng.choice(found)
    read = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
    if "super" in read or "self" not in read:
        return None
    given = [n for n in dict.fromkeys(read) if n in names and n != "self"]
    indent = source.indent(function)
    helper = (
        f"{indent}def _set_up_(self, {', '.join(given)}):\n"
        f"{_body(source, [statement], f'{indent}    ')}\n"
    )
    at = source.start_of_line(function)
    spans: list[Span] = [
        (at, at, helper),
        (*source.span(statement), f"self._set_up_({', '.join(given)})"),
    ]
    return spot.made(spans)


FAMILIES = [
    Family("statements/annotated", "harmless", annotate),
    Family("statements/annotation-gone", "harmless", annotate_not),
    Family("statements/return-split", "harmless", split_return),
    Family("statements/joined", "harmless", join_locals),
    Family("statements/if-negated", "harmless", negate),
    Family("statements/early-return", "harmless", early_return),
    Family("statements/nested", "harmless", nest),
    Family("statements/attempted", "harmless", attempt),
    Family("statements/method", "harmless", extract_method),
]
