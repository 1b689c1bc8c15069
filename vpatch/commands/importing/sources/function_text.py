"""The text of one function: what it takes from around it, and the same with other names."""

from __future__ import annotations

import ast
import builtins
import symtable
from typing import TYPE_CHECKING

from vpatch.deriving.source_code import Function, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUILTINS = frozenset(dir(builtins))


def parsed_function(text: str) -> Function:
    """Parse the text of one function."""
    (function,) = parsed(text).body
    if not isinstance(function, Function):
        raise TypeError(f"{ast.unparse(function)} is no function")
    return function


def free_names(text: str) -> set[str]:
    """Return the names that a function takes from around it."""
    used: set[str] = set()
    tables = [symtable.symtable(text, "patch", "exec")]
    function = parsed_function(text)
    for table in tables:  # grows while it is walked
        tables += table.get_children()
        if table.get_type() == "function":
            used |= {one.get_name() for one in table.get_symbols() if one.is_global()}
    around = [function.args, *([function.returns] if function.returns else [])]
    parts = [node for one in around for node in ast.walk(one)]
    used |= {node.id for node in parts if isinstance(node, ast.Name)}
    return used - _BUILTINS


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a function with other names for what it takes from around it."""
    lines = text.splitlines(keepends=True)
    nodes = [n for n in ast.walk(parsed(text)) if isinstance(n, ast.Name) and n.id in names]
    for node in sorted(nodes, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        line = lines[node.lineno - 1].encode()
        end = node.end_col_offset or node.col_offset
        line = line[: node.col_offset] + names[node.id].encode() + line[end:]
        lines[node.lineno - 1] = line.decode()
    return "".join(lines)


def mangled_in(text: str) -> str | None:
    """A name of a function that is another one in a class; None if there is none."""
    for node in ast.walk(parsed(text)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                if name.startswith("__") and not name.endswith("__"):
                    return name
    return None


def is_same(function: Function, text: str) -> bool:
    """Whether text is a function with the same code, whatever its name and docstring are."""
    try:
        # A method is indented.
        (statement,) = parsed(f"class _:\n{text}" if text[:1].isspace() else text).body
    except (SyntaxError, ValueError):
        return False
    again = statement.body[0] if isinstance(statement, ast.ClassDef) else statement
    return isinstance(again, type(function)) and _dumps(again) == _dumps(function)


def _dumps(function: Function) -> tuple[str, ...]:
    body = function.body[ast.get_docstring(function) is not None :]
    return tuple(map(ast.dump, (function.args, *body)))
