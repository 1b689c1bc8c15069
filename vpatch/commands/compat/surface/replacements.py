"""The functions of the target that it puts in the place of methods of vLLM."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.commands.compat.surface.items import CALLED
from vpatch.util.syntax import nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vpatch.commands.compat.surface.items import Ref

SELF = "self"


def selves_of(
    tree: ast.Module,
    functions: Mapping[str, ast.FunctionDef | None],
    meaning: Callable[[ast.expr], Ref | None],
) -> dict[str, Ref]:
    """Return what `self` is in the functions of a module that become methods.

    `Runner.forward = patched` says it of `patched`, and so does each call `helper(self)` in it of
    `helper`. A function that several classes get has no `self` that is sure.
    """
    owners: dict[str, set[Ref]] = {}
    # Most modules have no such function, and to look through all of a module takes long.
    if not any(map(_takes_self, functions.values())):
        return {}
    for name, owner in _replacements(tree):
        ref = meaning(owner)
        if ref is not None and not ref.steps and _takes_self(functions.get(name)):
            owners.setdefault(name, set()).add(ref.then(CALLED))
    pending = list(owners)
    for name in pending:
        function = functions.get(name)
        for helper in _helpers(function) if function else ():
            known = owners.setdefault(helper, set()) if _takes_self(functions.get(helper)) else None
            if known is not None and not owners[name] <= known:
                known |= owners[name]
                pending.append(helper)
    return {name: next(iter(refs)) for name, refs in owners.items() if len(refs) == 1}


def _replacements(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each function that is assigned to an attribute, with what has the attribute."""
    for node in nodes_in(tree.body):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=owner)], value=ast.Name(id=name)):
                yield name, owner
            case ast.Call(
                func=ast.Name(id="setattr"), args=[owner, ast.Constant(), ast.Name(id=name)]
            ):
                yield name, owner
            case _:
                pass


def _takes_self(function: ast.FunctionDef | None) -> bool:
    if function is None:
        return False
    arguments = [*function.args.posonlyargs, *function.args.args]
    return bool(arguments) and arguments[0].arg == SELF and not function.decorator_list


def _helpers(function: ast.FunctionDef) -> Iterator[str]:
    for node in nodes_in(function.body):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Name(id="self"), *_]):
                yield name
            case _:
                pass
