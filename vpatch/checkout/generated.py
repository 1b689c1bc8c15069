"""Files of a release that its build writes anew: what a build does there is no user's change."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = "_version.py"
_METADATA = ".egg-info"
# Names entry points, and so code that is run.
_RUNS = "entry_points.txt"
_LARGEST = 1 << 16


def is_build_output(checkout: Path, path: str) -> bool:
    """Whether a file that git is told to ignore is one that a build may have written.

    A release's archive has such files, so they are a part of the base commit: `_version.py` of the
    package, and the metadata in `NAME.egg-info`. The first one is code, so it may hold nothing but
    names for plain values.
    """
    parts = path.split("/")
    file = checkout / path
    if file.is_symlink() or not file.is_file():
        return False
    if len(parts) == 2 and parts[0].endswith(_METADATA):  # noqa: PLR2004 - at the root
        return parts[1] != _RUNS
    return parts[-1] == _VERSION and len(parts) == 2 and _is_plain(file)  # noqa: PLR2004


def _is_plain(file: Path) -> bool:
    try:
        if file.stat().st_size > _LARGEST:
            return False
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return all(_names_a_value(statement) for statement in tree.body)


def _names_a_value(statement: ast.stmt) -> bool:
    match statement:
        case ast.ImportFrom(module="__future__" | "typing"):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(target, ast.Name) for target in targets) and _is_value(value)
        case ast.AnnAssign(target=ast.Name(), value=value, annotation=annotation):
            return (value is None or _is_value(value)) and _is_value(annotation)
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=orelse):
            return all(_names_a_value(inner) for inner in (*body, *orelse))
    return False


def _is_value(node: ast.expr) -> bool:
    """Whether an expression only names things: no call, and nothing that could be one."""
    allowed = (
        ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Subscript, ast.BinOp, ast.BitOr, ast.Load
    )  # fmt: skip
    return all(isinstance(inner, allowed) for inner in ast.walk(node))
