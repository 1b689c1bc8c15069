"""The definitions of a file by name, each with a digest of its syntax.

A digest is the same for every layout, comment and docstring, and in every version of Python: the
dump of `ast` itself changes between them.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.codemods.nesting import NestedTooDeeplyError, measured
from vpatch.codemods.trees import first_line, import_of
from vpatch.planning.names import STATEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# A statement of a module or a class that defines no name.
_DIGITS = 16
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
# Neither says what the code does.
_LEFT_OUT = frozenset(["ctx", "kind", "type_comment"])


@dataclass(frozen=True)
class Definition:
    """A function or method, the head of a class, an assignment, an import, or another statement.

    `name` is qualified, as `Class.method`. `first` and `last` are lines, from 1. A file that is not
    Python is one definition without a name.
    """

    name: str
    first: int
    last: int
    node: ast.AST | None
    source: bytes = b""

    @property
    def key(self) -> str:
        """Its name; a statement has none, and is known by its digest."""
        return self.digest if self.name.endswith(STATEMENT) else self.name

    @cached_property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the syntax's SHA-256."""
        return hashlib.sha256(self.text).hexdigest()[:_DIGITS]

    @cached_property
    def text(self) -> bytes:
        """Its syntax as a text, the same for every layout; see `dumped`."""
        return self.source if self.node is None else dumped(self.node).encode()


def is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def outline(source: bytes, *, python: bool = True) -> list[Definition]:
    """Return what a file defines, in the order of its lines; a class comes before its methods."""
    try:
        return outline_of_tree(source, measured(source) if python else None)
    except NestedTooDeeplyError:
        return outline_of_tree(source, None)


def outline_of_tree(source: bytes, tree: ast.Module | None) -> list[Definition]:
    """Return what a file defines, as `outline` does.

    `tree` is the source as Python's own parser reads it; None for what is not Python.
    """
    if tree is None:
        return [Definition("", 1, source.count(b"\n") + 1, None, source)]
    return list(_of_block(tree.body, ""))


def dumped(node: ast.AST) -> str:
    """Write syntax as a text that is the same for every layout, docstring and version of Python."""
    parts: list[str] = []
    _dump(node, parts.append)
    return "".join(parts)


def _of_block(body: Sequence[ast.stmt], prefix: str) -> Iterator[Definition]:
    for node in body:
        span = (first_line(node), node.end_lineno or node.lineno)

        def named(name: str, what: ast.AST, span: tuple[int, int] = span) -> Definition:
            return Definition(prefix + name, *span, what)

        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield named(name, node)
            case ast.ClassDef(name=name):
                yield named(name, _head_of(node))
                yield from _of_block(node.body, f"{prefix}{name}.")
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    bound = alias.asname or alias.name.partition(".")[0]
                    yield named(bound, import_of(node, alias))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield named(name, node)
            case ast.Expr(value=ast.Constant(value=str())):
                pass  # a docstring
            case _ if any(isinstance(inner, ast.stmt) for inner in _inner(node)):
                yield named(STATEMENT, _without_definitions(node))
                yield from _of_block([n for n in _inner(node) if _defines(n)], prefix)
            case _:
                yield named(STATEMENT, node)


def _head_of(node: ast.ClassDef) -> ast.ClassDef:
    return ast.ClassDef(
        name=node.name,
        bases=node.bases,
        keywords=node.keywords,
        body=[],
        decorator_list=node.decorator_list,
    )


def _inner(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in the blocks of a statement such as `if` or `try`."""
    for name in _BLOCKS:
        for inner in getattr(node, name, []):
            if isinstance(inner, ast.stmt):
                yield inner
            else:
                yield from _inner(inner)


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, (*_FUNCTIONS, ast.ClassDef)) or any(map(_defines, _inner(node)))


def _without_definitions(node: ast.stmt) -> ast.AST:
    """The same statement with the name of each definition in place of its code."""
    emptied = copy.deepcopy(node)
    for inner in ast.walk(emptied):
        if isinstance(inner, (*_FUNCTIONS, ast.ClassDef)):
            inner.body, inner.decorator_list = [], []
    return emptied


def _dump(node: object, write: Callable[[str], None]) -> None:
    if isinstance(node, ast.AST):
        write(f"({type(node).__name__}")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or value == [] or name in _LEFT_OUT:
                continue
            write(f" {name}=")
            is_body = name == "body" and isinstance(node, (*_FUNCTIONS, ast.ClassDef))
            _dump(_without_docstring(value) if is_body else value, write)
        write(")")
    elif isinstance(node, list):
        write("[")
        for item in node:
            _dump(item, write)
            write(",")
        write("]")
    else:
        write(ascii(node))


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body
