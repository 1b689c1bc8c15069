"""What an image's Python is asked of each patch: whether what it imports is the patched code.

The names of the functions, constants and imports that a patch changed are read from its files
before and after. In the image, each is looked up in the imported module and compared with the
module's own source: what another package wraps or replaces while it is imported is found so.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from vpatch.commits import overall_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.outcome import Plan


_Kind = Literal["function", "constant", "import"]


@dataclass(frozen=True)
class Probe:
    """A name of a module, as `Class.method`, and how to compare what it stands for.

    A `function` by its code, a `constant` by its value, an `import` by being there.
    """

    module: str
    name: str
    kind: _Kind


def probes_of(plan: Plan) -> dict[str, list[Probe]]:
    """Return the probes of each patch that a plan takes, by its id; none where it has no names."""
    last = overall_changes(plan)
    found = {}
    for decision in plan.taken:
        probes: list[Probe] = []
        for path, change in sorted(decision.changes.items()):
            module = module_of(path)
            if module is not None:
                before = _names(change.before or b"")
                after, there = _names(change.after), _names(last[path].after)
                probes += [
                    Probe(module, *key)
                    for key, text in after.items()
                    if before.get(key) != text and key in there
                ]
        found[decision.patch.id] = probes
    return found


def module_of(path: str) -> str | None:
    """Return the name by which a file of the package is imported; None for what is run instead."""
    pure = PurePosixPath(path)
    if pure.suffix != ".py" or pure.stem == "__main__":
        return None
    parts = pure.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(source: bytes) -> dict[tuple[str, _Kind], str]:
    """What a module binds once when it is imported, with the syntax of each."""
    bound = list(_bound(ast.parse(source), ""))
    names = [name for name, _, _ in bound]
    return {
        (name, kind): text
        for name, kind, text in bound
        if kind == "function" or names.count(name) == 1
    }


def _bound(scope: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, _Kind, str]]:
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
