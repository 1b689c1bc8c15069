"""Whether two files mean the same: by Python's parser, whatever the order of their imports."""

from __future__ import annotations

import ast
import warnings


def same_meaning(path: str, one: bytes, other: bytes) -> bool:
    """Whether two files have the same code; imports side by side may have another order."""
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
    return _dumped(trees[0]) == _dumped(trees[1])


def _dumped(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, _ordered(block))
    return ast.dump(tree)


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
