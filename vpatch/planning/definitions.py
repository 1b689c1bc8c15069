"""What a Python file defines once it is imported: functions, constants and imports, by name."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from vpatch.codemods.nesting import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.planning.state import Change

Kind = Literal["function", "constant", "import"]


def changed_names(change: Change) -> dict[tuple[str, Kind], str]:
    """Return what a change defines or redefines, as `Class.method`, with the syntax of each."""
    before = names_of(change.before or b"")
    return {key: text for key, text in names_of(change.after).items() if before.get(key) != text}


def module_of(path: str) -> str | None:
    """Return the name by which a file of the package is imported; None for what is run instead."""
    pure = PurePosixPath(path)
    if pure.suffix != ".py" or pure.stem == "__main__":
        return None
    parts = pure.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names_of(source: bytes) -> dict[tuple[str, Kind], str]:
    """What a module binds once when it is imported, with the syntax of each."""
    bound = list(_bound(parsed(source), ""))
    names = [name for name, _, _ in bound]
    return {
        (name, kind): text
        for name, kind, text in bound
        if kind == "function" or names.count(name) == 1
    }


def _bound(scope: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Kind, str]]:
    for node in scope.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, "function", ast.dump(node)
            case ast.ClassDef(name=name):
                yield from _bound(node, f"{prefix}{name}.")
            case _ if prefix:
                pass  # what becomes of a class's attributes, its decorators and bases decide
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if _is_literal(value):
                    yield name, "constant", ast.dump(value)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    yield alias.asname or alias.name.partition(".")[0], "import", ast.dump(node)
            case _:
                pass  # nothing that can be asked for by name


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
