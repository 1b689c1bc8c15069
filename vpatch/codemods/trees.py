"""Code as Python's own parser reads it: the blocks and the lines of statements."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# What has blocks, or is a part of what has them.
Part = ast.stmt | ast.ExceptHandler | ast.match_case
# The fields of a statement that hold its blocks, in Python's own trees and in libcst's.
BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
# Lines and columns do not mean the same to libcst, and to everybody, with these. A comment declares
# an encoding in the first two lines alone.
STRANGE_LINES = re.compile(rb"\A\xef\xbb\xbf|[\f\r]|\A(?:.*\n)?[ \t]*#.*coding[:=]")


def inner_parts(node: ast.AST) -> Iterator[Part]:
    """What the blocks of a statement, or of a part of one, have right inside."""
    return (inner for name in BLOCKS for inner in getattr(node, name, ()))


def parts_of(body: Iterable[Part]) -> Iterator[Part]:
    """Every statement in some blocks, and every `except` and `case`."""
    for node in body:
        yield node
        yield from parts_of(inner_parts(node))


def first_line(node: ast.AST) -> int:
    """The first line of a statement, its decorators included, or of a `case`; from 1."""
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([getattr(node, "lineno", 1), *(one.lineno for one in decorators)])


def import_of(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    """An import of one of the names of another."""
    if isinstance(node, ast.ImportFrom):
        return ast.ImportFrom(module=node.module, names=[alias], level=node.level)
    return ast.Import(names=[alias])
