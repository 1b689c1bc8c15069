"""What the methods of a class set on `self`, with the types that are known."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.expressions import class_named, dotted
from vpatch.commands.compat.code.outline import Value
from vpatch.util.syntax import nodes_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def methods_of(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for name in ("body", "orelse", "finalbody", "handlers"):
                for inner in getattr(node, name, ()):
                    yield from methods_of(
                        getattr(inner, "body", []) if name == "handlers" else [inner]
                    )


def set_attributes(
    method: ast.FunctionDef | ast.AsyncFunctionDef, attributes: dict[str, Value]
) -> bool:
    """Add what a method sets on `self`; return whether it sets what nobody can read."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    if not arguments:
        return False
    me = arguments[0].arg
    kinds: dict[str, ast.expr | None] = {
        one.arg: one.annotation for one in [*arguments, *method.args.kwonlyargs]
    }
    is_dynamic = False
    for node in nodes_in(method.body):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == me:
                if isinstance(node.ctx, ast.Store):
                    attributes.setdefault(name, Value("always", node.lineno))
                elif name == "__dict__":
                    is_dynamic = True
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=owner), key, *_]) if (
                owner == me
            ):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    attributes.setdefault(key.value, Value("always", node.lineno))
                else:
                    is_dynamic = True
            case ast.Assign() | ast.AnnAssign():
                _note_type(node, me, kinds, attributes)
            case _:
                pass
    return is_dynamic


def _note_type(
    node: ast.Assign | ast.AnnAssign,
    me: str,
    kinds: dict[str, ast.expr | None],
    attributes: dict[str, Value],
) -> None:
    """Note the type of an attribute that a method sets, if that is known."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if not isinstance(target, ast.Attribute) or dotted(target.value) != me:
        return
    if isinstance(node, ast.AnnAssign):
        value = Value("always", node.lineno, class_named(node.annotation))
    elif isinstance(node.value, ast.Name) and kinds.get(node.value.id) is not None:
        value = Value("always", node.lineno, class_named(kinds[node.value.id]))
    elif isinstance(node.value, ast.Call):
        value = Value("always", node.lineno, call=dotted(node.value.func))
    else:
        # What is set to something else as well has no type that is sure.
        value = Value("always", node.lineno)
    known = attributes.get(target.attr)
    if known is None or known == Value("always", known.first):
        attributes[target.attr] = value
    elif (known.type, known.call) != (value.type, value.call) and not _is_none(node.value):
        attributes[target.attr] = Value("always", known.first)


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
