"""What the methods of a class read and set on `self`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.code.attributes import methods_of, set_attributes
from vpatch.util.syntax import nodes_in

if TYPE_CHECKING:
    from vpatch.commands.compat.code.outline import Value


class SelfUse(NamedTuple):
    """The attributes that a method reads and sets on its first parameter.

    What it asks for with `hasattr`, and what it takes away, does not count as read.
    """

    reads: frozenset[str]
    sets: frozenset[str]


def self_uses(node: ast.ClassDef) -> dict[str, SelfUse]:
    """Return what each method of a class reads and sets; what has one name counts together."""
    uses: dict[str, SelfUse] = {}
    for method in methods_of(node.body):
        use = use_of(method)
        known = uses.get(method.name, SelfUse(frozenset(), frozenset()))
        uses[method.name] = SelfUse(known.reads | use.reads, known.sets | use.sets)
    return uses


def use_of(method: ast.FunctionDef | ast.AsyncFunctionDef) -> SelfUse:
    """Return what a method, or a function in its place, reads and sets on its first parameter."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    if not arguments:
        return SelfUse(frozenset(), frozenset())
    me = arguments[0].arg
    attributes: dict[str, Value] = {}
    set_attributes(method, attributes)
    reads: set[str] = set()
    sets = set(attributes)
    asked: set[str] = set()
    for node in nodes_in(method.body):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == me:
                (reads if isinstance(node.ctx, ast.Load) else sets).add(name)
            case ast.Call(
                func=ast.Name(id="hasattr"),
                args=[ast.Name(id=owner), ast.Constant(value=str(name))],
            ) if owner == me:
                asked.add(name)
            case _:
                pass
    return SelfUse(frozenset(reads - asked), frozenset(sets))
