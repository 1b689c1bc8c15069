"""Messages of exceptions and of logs on the path of a defect: before the change."""

from __future__ import annotations

import ast
import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

from vpatch.deriving.source_code import parsed_if_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.changes.change import FileChange

_LEVELS = frozenset({"warning", "warning_once", "error", "exception", "critical"})
_LOGGERS = re.compile(r"log(ger)?$", re.IGNORECASE)
# Where a log puts a value into a message.
_VALUE = re.compile(r"%(?:\(\w+\))?[-#0 +]*[\d.*]*[a-zA-Z]|\{[^{}]*\}")
# Shorter texts are in many logs.
_SHORTEST = 12
_KEPT = 64


def messages_of(files: Sequence[FileChange]) -> list[str]:
    """What a log may say before the change: in lines that it removes, then where they lead.

    What only the new lines say is a symptom of nothing: a tree without the patch has no such line.
    """
    removed: list[str] = []
    led_to: list[str] = []
    for file in files:
        if file.before is not None and file.path.endswith(".py"):
            texts = _before(file.before, file.after)
            removed += texts[0]
            led_to += texts[1]
    return list(dict.fromkeys([*removed, *led_to]))


def new_messages(files: Sequence[FileChange]) -> list[str]:
    """What only a file with the change may say: of a tree without it, that is not a symptom."""
    messages: list[str] = []
    for file in files:
        if file.path.endswith(".py"):
            messages += _new(file.before or b"", file.after)
    return messages


# A patch is written several times before it is proven.
@lru_cache(maxsize=_KEPT)
def _before(before: bytes, after: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What lines that go away say, and then what the code says where changed conditions lead."""
    lines = _changed_lines(before, after)
    tree = parsed_if_python(before) if lines else ast.Module([], [])
    led_to = _messages(tree, _lines_led_to(tree, lines))
    return tuple(_messages(tree, lines)), tuple(led_to)


@lru_cache(maxsize=_KEPT)
def _new(before: bytes, after: bytes) -> tuple[str, ...]:
    lines = _changed_lines(after, before)
    new = _messages(parsed_if_python(after), lines) if lines else ()
    return tuple(text for text in new if text.encode() not in before)


def _changed_lines(before: bytes, after: bytes) -> set[int]:
    """The lines of a file that it has not after the change, counted from 1."""
    sides = before.split(b"\n"), after.split(b"\n")
    lines: set[int] = set()
    for tag, first, last, *_ in SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        if tag != "equal":
            lines.update(range(first + 1, last + 1))
    return lines


def _lines_led_to(tree: ast.Module, lines: set[int]) -> set[int]:
    """The lines of the blocks to which conditions in some lines lead."""
    led_to: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While)) and not lines.isdisjoint(
            range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
        ):
            for one in node.body:
                if not hasattr(one, "body"):
                    led_to.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return led_to


def _messages(tree: ast.Module, lines: set[int]) -> Iterator[str]:
    for node in ast.walk(tree) if lines else ():
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
