"""Whether two files have the same code, by Python's parser."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def same_code(
    path: str,
    one: bytes,
    other: bytes,
    simplify: Callable[[ast.Module], None] | None = None,
) -> bool:
    """Whether two files are the same: by Python's parser, or else by their bytes.

    `simplify` takes out of both trees what does not count.
    """
    if one == other:
        return True
    if not path.endswith(".py"):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trees = [ast.parse(text) for text in (one, other)]
        except SyntaxError:
            return False
    if simplify is not None:
        for tree in trees:
            simplify(tree)
    return ast.dump(trees[0]) == ast.dump(trees[1])


def drop_docstrings(tree: ast.Module) -> None:
    """Take away each statement that is only a string."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [each for each in body if not _is_string(each)]


def order_imports(tree: ast.Module) -> None:
    """Give each run of imports the order of its names."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, _ordered(block))


def _is_string(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _ordered(block: list[ast.stmt]) -> list[ast.stmt]:
    """A block with each run of imports in the order of its names."""
    ordered: list[ast.stmt] = []
    imports: list[ast.stmt] = []
    for one in [*block, None]:
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            imports += _single(one)
            continue
        ordered += sorted(imports, key=ast.dump)
        imports = []
        if one is not None:
            ordered.append(one)
    return ordered


def _single(one: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
    """An import of several names as one of each."""
    if isinstance(one, ast.ImportFrom):
        return [ast.ImportFrom(one.module, [name], one.level) for name in one.names]
    return [ast.Import([name]) for name in one.names]
