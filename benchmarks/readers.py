"""Which files read the fields of some classes: how far a change of such a class reaches.

It knows what annotations, calls and patterns say of the names of a file, and not all that a type
checker knows: two values of a file that have one name are one. So it may count a file too many.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# What `vpatch smoke` is asked for, and where it runs by that.
SMOKE_OPTIONS = {"SmokeOptions", "RunOptions", "Here", "Installed", "InImage", "OnCluster"}


def readers(sources: Mapping[Path, str], classes: set[str]) -> list[Path]:
    """The files that read a field of one of the classes."""
    files = {file: [*ast.walk(ast.parse(text))] for file, text in sources.items()}
    nodes = [node for of_file in files.values() for node in of_file]
    # `Where = Here | OnCluster` is a further name; what a function returns needs none.
    types = classes | {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
        for target in node.targets
        if isinstance(target, ast.Name) and _names(node.value) & classes
    }
    makers = types | {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef) and _names(node.returns) & types
    }
    fields: set[str] = set()
    holders: set[str] = set()  # attributes, of any class, that are such a value
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            annotated = dict(_annotated(node.body))
            fields |= annotated.keys() if node.name in classes else set()
            holders |= {name for name, annotation in annotated.items() if annotation & types}
    values = {file: set(_values(of_file, types, makers)) for file, of_file in files.items()}
    for file, of_file in files.items():
        holders.update(_held(of_file, values[file]))

    def is_reading(node: ast.AST, names: set[str]) -> bool:
        match node:
            case ast.Attribute(ast.Name(name), field, ast.Load()):
                return name in names and field in fields
            case ast.Attribute(ast.Attribute(attr=name), field, ast.Load()):
                return name in holders and field in fields
            case ast.Call(ast.Name("getattr"), [ast.Name(name), *_]):
                return name in names
            case ast.MatchClass(ast.Name(name), patterns, _, keywords):
                return name in types and bool(patterns or keywords)
        return False

    return [
        file
        for file, of_file in files.items()
        if any(is_reading(node, values[file]) for node in of_file)
    ]


def _names(node: ast.AST | None) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} if node else set()


def _annotated(body: Iterable[ast.stmt]) -> Iterator[tuple[str, set[str]]]:
    for one in body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id, _names(one.annotation)


def _values(nodes: Sequence[ast.AST], types: set[str], makers: set[str]) -> Iterator[str]:
    """The names of a file that are a value of one of the types somewhere in it."""
    for node in nodes:
        match node:
            case ast.ClassDef(name) if name in types:
                yield "self"
            case ast.arg(name, annotation) if _names(annotation) & types:
                yield name
            case ast.AnnAssign(ast.Name(name), annotation) if _names(annotation) & types:
                yield name
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name(of) | ast.Attribute(attr=of))):
                if of in makers:
                    yield name
            case ast.MatchAs(ast.MatchClass(ast.Name(of)), str(name)) if of in types:
                yield name


def _held(nodes: Sequence[ast.AST], values: set[str]) -> Iterator[str]:
    """The attributes that `self` gets of such values."""
    for node in nodes:
        match node:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(assigned)):
                pairs = [*zip(targets, assigned, strict=False)]
            case ast.Assign([target], value):
                pairs = [(target, value)]
            case _:
                continue
        for pair in pairs:
            match pair:
                case (ast.Attribute(ast.Name("self"), attribute), ast.Name(name)):
                    if name in values:
                        yield attribute
