"""Messages of exceptions and of logs in the lines that a change adds or removes."""

from __future__ import annotations

import ast
import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.importing.source_code import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.importing.change import FileChange

_LEVELS = frozenset({"warning", "warning_once", "error", "exception", "critical"})
_LOGGERS = re.compile(r"log(ger)?$", re.IGNORECASE)
# Where a log puts a value into a message.
_VALUE = re.compile(r"%(?:\(\w+\))?[-#0 +]*[\d.*]*[a-zA-Z]|\{[^{}]*\}")
# Shorter texts are in many logs.
_SHORTEST = 12


def messages_of(files: Sequence[FileChange]) -> list[str]:
    """What a log may say before the change or after it: first what the change removes."""
    found: list[list[str]] = [[], []]
    for file in files:
        if file.before is None or not file.path.endswith(".py"):
            continue
        for side, (content, lines) in enumerate(_changed(file.before, file.after)):
            found[side] += _messages(content, lines)
    return list(dict.fromkeys([*found[0], *found[1]]))


def _changed(before: bytes, after: bytes) -> list[tuple[bytes, set[int]]]:
    """Both sides of a file, with the lines that the other does not have, counted from 1."""
    sides = before.split(b"\n"), after.split(b"\n")
    lines: tuple[set[int], set[int]] = (set(), set())
    for tag, *bounds in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        if tag != "equal":
            lines[0].update(range(bounds[0] + 1, bounds[1] + 1))
            lines[1].update(range(bounds[2] + 1, bounds[3] + 1))
    return [(before, lines[0]), (after, lines[1])]


def _messages(content: bytes, lines: set[int]) -> Iterator[str]:
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        for text in _texts(node):
            if lines.isdisjoint(range(text.lineno, (text.end_lineno or text.lineno) + 1)):
                continue
            message = _fixed_part(text)
            if len(message) >= _SHORTEST and " " in message:
                yield message


def _texts(node: ast.AST) -> list[ast.expr]:
    """The strings that an exception or a log is made with."""
    match node:
        case ast.Raise(exc=ast.Call(args=args)):
            return [arg for arg in args if _is_text(arg)]
        case ast.Call(func=ast.Attribute(value=logger, attr=level), args=[first, *_]) if (
            level in _LEVELS and _LOGGERS.search(ast.unparse(logger)) and _is_text(first)
        ):
            return [first]
    return []


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _fixed_part(node: ast.expr) -> str:
    """The longest part of a message on one line that is the same whatever its values are."""
    whole = ""
    for part in node.values if isinstance(node, ast.JoinedStr) else [node]:
        is_fixed = isinstance(part, ast.Constant) and isinstance(part.value, str)
        whole += part.value if is_fixed else "\n"  # type: ignore[attr-defined]
    parts = _VALUE.sub("\n", whole).split("\n")
    return max((part.strip() for part in parts), key=len)
