"""The target's own `__init__` in place of one of vLLM, and what it leaves to others."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.code.methods import use_of
from vpatch.util.syntax import nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from vpatch.commands.compat.surface.items import Ref

INIT = "__init__"
# `super(Base, self)`.
_TWO = 2


class Initialiser(NamedTuple):
    """What an `__init__` sets, and whose `__init__` it calls.

    `called` are classes that it names; `after` those that `super(Class, self)` names, whose own
    `__init__` is left out.
    """

    sets: tuple[str, ...]
    called: tuple[Ref, ...]
    after: tuple[Ref, ...]


def initialiser_of(
    function: ast.FunctionDef | ast.AsyncFunctionDef, meaning: Callable[[ast.expr], Ref | None]
) -> Initialiser | None:
    """Return what an `__init__` does; None if it calls the one before it, or may do so."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments:
        return None
    me = arguments[0].arg
    called: list[Ref] = []
    after: list[Ref] = []
    for node in nodes_in(function.body):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id="object"), attr="__init__"):
                continue
            case ast.Attribute(
                value=ast.Call(func=ast.Name(id="super"), args=args), attr="__init__"
            ):
                ref = meaning(args[0]) if len(args) == _TWO else None
                after += [] if ref is None else [ref]
            case ast.Attribute(value=owner, attr="__init__"):
                ref = meaning(owner)
                called += [] if ref is None else [ref]
            case _:
                # A function that gets `self` may be the `__init__` from before.
                is_handed_on = any(isinstance(a, ast.Name) and a.id == me for a in node.args)
                if not is_handed_on or _is_known(node.func):
                    continue
                ref = None
        if ref is None:
            return None
    return Initialiser(tuple(sorted(use_of(function).sets)), tuple(called), tuple(after))


def _is_known(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id in {
        *("hasattr", "getattr", "setattr", "isinstance", "type", "id", "repr", "super"),
    }
