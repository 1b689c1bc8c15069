"""Mutations that rename."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mutants.mutant import Family, Mutant, Spot
from mutants.source import Source, own, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

# Their names are those of a checkpoint's tensors, or of a protocol.
_FIXED = {"self", "cls", "__init__", "__post_init__", "e_proj", "h_proj", "vllm_config"}
_ENDS = ("_", "_value", "_new", "_arg")


def _fresh(name: str, rng: Random) -> str:
    return f"{name}{rng.choice(_ENDS)}"


def uses(source: Source, name: str) -> list[ast.AST]:
    """Every name, attribute, keyword, definition and import of a word in a file."""
    return [node for node in source.nodes if _is(node, name)]


def _is(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=found) | ast.Attribute(attr=found) | ast.arg(arg=found):
            return found == name
        case ast.keyword(arg=found) | ast.alias(name=found):
            return found == name
        case ast.FunctionDef(name=found) | ast.ClassDef(name=found):
            return found == name
    return False


def everywhere(spot: Spot, old: str, new: str) -> Mutant | None:
    """Rename a word in all files."""
    made = {}
    for path, data in spot.files.items():
        if path.endswith(".py") and old.encode() in data:
            source = parsed(data)
            found = uses(source, old)
            if any(isinstance(n, ast.alias) and n.asname for n in found):
                return None
            spans = source.renamed(found, old, new)
            edited = None if spans is None else source.edited(spans)
            if edited is None:
                return None
            if found:
                made[path] = edited
    return Mutant(made, {old: new}) if made else None


def rename_parameter(spot: Spot, rng: Random) -> Mutant | None:
    function = spot.function(rng)
    if function is None:
        return None
    arguments = function.args
    names = [a.arg for a in (*arguments.args, *arguments.kwonlyargs) if a.arg not in _FIXED]
    if not names:
        return None
    old = rng.choice(names)
    new = _fresh(old, rng)
    source = spot.source
    nodes: list[ast.AST] = [
        n
        for n in ast.walk(function)
        if (isinstance(n, ast.Name) and n.id == old) or (isinstance(n, ast.arg) and n.arg == old)
    ]
    called = function.name
    owner = source.parents.get(function)
    if called == "__init__" and isinstance(owner, ast.ClassDef):
        called = owner.name
    files: dict[str, list[ast.AST]] = {spot.path: nodes}
    for path, data in spot.files.items():
        if path.endswith(".py") and called.encode() in data and old.encode() in data:
            files.setdefault(path, []).extend(_keywords(parsed(data), called, old))
    made = {}
    for path, found in files.items():
        other = parsed(spot.files[path])
        spans = other.renamed(found, old, new)
        edited = None if spans is None else other.edited(spans)
        if edited is None:
            return None
        made[path] = edited
    return Mutant(made, {old: new})


def _keywords(source: Source, called: str, old: str) -> Iterator[ast.AST]:
    for node in source.nodes:
        if isinstance(node, ast.Call):
            function: ast.AST = node.func
            while isinstance(function, ast.Subscript):
                function = function.value
            if _is(function, called):
                yield from (k for k in node.keywords if k.arg == old)


def rename_local(spot: Spot, rng: Random) -> Mutant | None:
    function = spot.function(rng)
    if function is None:
        return None
    parameters = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    names = {
        n.id
        for n in own(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id not in parameters
    }
    if not names:
        return None
    old = rng.choice(sorted(names))
    found = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == old]
    return spot.made(spot.source.renamed(found, old, _fresh(old, rng)))


def rename_definition(spot: Spot, rng: Random) -> Mutant | None:
    node = spot.node
    names = [part for part in spot.name.split(".") if part not in _FIXED]
    if node is None or not names:
        return None
    old = rng.choice(names)
    return everywhere(spot, old, rng.choice([f"{old}V2", f"{old}_v2", f"_{old}", f"New{old}"]))


def rename_attribute(spot: Spot, rng: Random) -> Mutant | None:
    node = spot.node
    if node is None:
        return None
    names = {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == "self"
        and n.attr not in _FIXED
    }
    called = {
        n.func.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    }
    if not names - called:
        return None
    old = rng.choice(sorted(names - called))
    source = spot.source
    found: list[ast.AST] = [
        n for n in source.nodes if isinstance(n, ast.Attribute) and n.attr == old
    ]
    annotated = (
        n.target
        for n in source.nodes
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == old
    )
    if any(True for _ in annotated):
        return None  # a field: a name of the interface
    return spot.made(source.renamed(found, old, _fresh(old, rng)))


def rename_flag(spot: Spot, rng: Random) -> Mutant | None:
    """Rename a name of the module, or a constant that a kernel takes."""
    node = spot.node
    if node is None:
        return None
    upper = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg) and n.arg.isupper()}
    stored = {
        target.id
        for statement in spot.source.tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and not target.id.startswith("__")
    }
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names = sorted(upper | (stored & read) - {"logger"})
    if not names:
        return None
    old = rng.choice(names)
    return everywhere(spot, old, f"{old}_ENABLED" if old.isupper() else _fresh(old, rng))


FAMILIES = [
    Family("renames/parameter", "harmless", rename_parameter),
    Family("renames/local", "harmless", rename_local),
    Family("renames/definition", "harmless", rename_definition),
    Family("renames/attribute", "harmless", rename_attribute),
    Family("renames/flag", "harmless", rename_flag),
]
