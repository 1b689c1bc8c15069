"""Expressions that name something, as dotted texts."""

from __future__ import annotations

import ast

# What a class is wrapped in where an annotation still means that one class.
_WRAPPERS = frozenset(
    ["Annotated", "ClassVar", "Final", "InitVar", "Optional", "Required", "SkipValidation"]
)
_UNKNOWN = "?"


def dotted(node: ast.AST | None) -> str | None:
    """Return `a.b.c` of a name or of attributes of it; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def last_name(node: ast.AST | None) -> str:
    """Return `c` of `a.b.c`, or ""."""
    return (dotted(node) or "").rpartition(".")[2]


def base_name(node: ast.expr) -> str:
    """Return the name of a base class without its parameters, or "?"."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return dotted(node) or _UNKNOWN


def decorator_name(node: ast.expr) -> str:
    """Return the name of a decorator, and of its keyword arguments that are true: `a(b,c)`."""
    if not isinstance(node, ast.Call):
        return dotted(node) or _UNKNOWN
    true = [
        one.arg or ""
        for one in node.keywords
        if isinstance(one.value, ast.Constant) and one.value.value is True
    ]
    return f"{dotted(node.func) or _UNKNOWN}({','.join(true)})"


def class_named(node: ast.expr | None) -> str | None:  # noqa: PLR0911 - one for each form
    """Return the one class that an annotation names, such as `X` of `"X | None"`."""
    match node:
        case ast.Name() | ast.Attribute():
            return dotted(node)
        case ast.Constant(value=str(text)):
            try:
                return class_named(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            sides = [side for side in (left, right) if not _is_none(side)]
            return class_named(sides[0]) if len(sides) == 1 else None
        case ast.Subscript(value=value, slice=inner):
            name = last_name(value)
            if name not in _WRAPPERS:
                return None
            return class_named(
                inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
            )
        case _:
            return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def text_of(node: ast.expr) -> str:
    """Return the text of an expression, such as that of a default."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return _UNKNOWN


def texts_in(node: ast.expr | None) -> tuple[str, ...] | None:
    """Return the keys of a dictionary, or the elements of a list, if all of them are texts."""
    elements: list[ast.expr | None]
    match node:
        case ast.Dict(keys=keys):
            elements = list(keys)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            elements = list(items)
        case _:
            return None
    texts = [one.value for one in elements if isinstance(one, ast.Constant)]
    plain = tuple(text for text in texts if isinstance(text, str))
    return plain if plain and len(plain) == len(elements) else None


def is_type_checking(test: ast.expr) -> bool:
    return last_name(test) == "TYPE_CHECKING"
