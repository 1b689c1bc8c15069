"""Mutations of imports: the same name by another way."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from mutants.mutant import Family, Mutant, Spot
from mutants.source import Function, Scoped, Source, Span

if TYPE_CHECKING:
    from random import Random


def _imported(spot: Spot, rng: Random) -> tuple[ast.ImportFrom, ast.alias] | None:
    """A name that the spot uses and the module imports."""
    node = spot.node
    if node is None:
        return None
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found = [
        (statement, alias)
        for statement in spot.source.tree.body
        if isinstance(statement, ast.ImportFrom) and not statement.level and statement.module
        for alias in statement.names
        if (alias.asname or alias.name) in read and statement.module != "typing"
    ]
    return rng.choice(found) if found else None


def _without(source: Source, statement: ast.ImportFrom, alias: ast.alias, new: str) -> Span:
    """The import without one of its names, and with another import."""
    kept = [ast.unparse(a) for a in statement.names if a is not alias]
    start, end = source.span(statement)
    old = f"from {statement.module} import {', '.join(kept)}\n" if kept else ""
    return start, end, f"{old}{new}"


def _respelt(spot: Spot, rng: Random, new: str, spelling: str) -> Mutant | None:
    found = _imported(spot, rng)
    if found is None:
        return None
    statement, alias = found
    values = {"module": statement.module or "", "name": alias.name}
    values["parent"], _, values["last"] = values["module"].rpartition(".")
    if not values["parent"]:
        return None
    bound = alias.asname or alias.name
    source = spot.source
    nodes = [n for n in source.nodes if isinstance(n, ast.Name) and n.id == bound]
    spans = source.renamed(nodes, bound, spelling.format(**values))
    if spans is None:
        return None
    return spot.made([_without(source, statement, alias, new.format(**values)), *spans])


def import_module(spot: Spot, rng: Random) -> Mutant | None:
    return _respelt(spot, rng, "import {module}", "{module}.{name}")


def import_module_as(spot: Spot, rng: Random) -> Mutant | None:
    return _respelt(spot, rng, "import {module} as {last}_module", "{last}_module.{name}")


def import_from_parent(spot: Spot, rng: Random) -> Mutant | None:
    return _respelt(spot, rng, "from {parent} import {last} as _{last}", "_{last}.{name}")


def import_as(spot: Spot, rng: Random) -> Mutant | None:
    return _respelt(spot, rng, "from {module} import {name} as _{name}", "_{name}")


def import_inside(spot: Spot, rng: Random) -> Mutant | None:
    """Move an import into the function that uses the name."""
    found, function = _imported(spot, rng), spot.function(rng)
    if found is None or function is None:
        return None
    statement, alias = found
    source, first = spot.source, function.body[0]
    bound = alias.asname or alias.name
    used = [n for n in source.nodes if isinstance(n, ast.Name) and n.id == bound]
    if any(function not in source.above(n) for n in used) or _in_header(function, used):
        return None
    if isinstance(first, ast.Expr) and len(function.body) > 1:
        first = function.body[1]
    at = source.start_of_line(first)
    line = f"{source.indent(first)}from {statement.module} import {ast.unparse(alias)}\n"
    return spot.made([_without(source, statement, alias, ""), (at, at, line)])


def _in_header(function: Function, used: list[ast.Name]) -> bool:
    below = {n for statement in function.body for n in ast.walk(statement)}
    return any(n not in below for n in used)


def import_plain_as(spot: Spot, rng: Random) -> Mutant | None:
    """`import torch` becomes `import torch as _torch`, and so do its uses."""
    source = spot.source
    found = [s for s in source.tree.body if isinstance(s, ast.Import) and len(s.names) == 1]
    if not found:
        return None
    statement = rng.choice(found)
    alias = statement.names[0]
    bound = alias.asname or alias.name
    nodes = [n for n in source.nodes if isinstance(n, ast.Name) and n.id == bound]
    if "." in bound or not nodes:
        return None
    new = f"{bound}_" if bound not in vars(builtins) else f"{bound}_module"
    spans = source.renamed(nodes, bound, new)
    if spans is None:
        return None
    return spot.made([(*source.span(statement), f"import {alias.name} as {new}"), *spans])


def alias(spot: Spot, rng: Random) -> Mutant | None:
    """Use a name of the module by another name, which is assigned behind the imports."""
    found, node = _imported(spot, rng), spot.node
    if found is None or not isinstance(node, Scoped):
        return None
    old = found[1].asname or found[1].name
    new = f"_{old}_alias"
    source = spot.source
    nodes = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == old]
    spans = source.renamed(nodes, old, new)
    imports = [s for s in source.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    if spans is None:
        return None
    at = source.end_of_line(imports[-1])
    return spot.made([*spans, (at, at, f"\n{new} = {old}\n")])


FAMILIES = [
    Family("renames/alias", "harmless", alias),
    Family("imports/module", "harmless", import_module),
    Family("imports/module-as", "harmless", import_module_as),
    Family("imports/from-parent", "harmless", import_from_parent),
    Family("imports/name-as", "harmless", import_as),
    Family("imports/inside", "harmless", import_inside),
    Family("imports/plain-as", "harmless", import_plain_as),
]
