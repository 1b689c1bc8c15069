"""Lay out the lines that an edit changed: no longer than they may be, and indented by their place.

What is in brackets is indented by the line that opens them. Lines that were there stay as they are.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from vpatch.codemods.tokens import Line, lines_of
from vpatch.codemods.wrapping import (
    STEP,
    WIDTH,
    wrapped_element,
    wrapped_elements,
    wrapped_statement,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Lines and columns do not mean the same to everybody with these.
_STRANGE = re.compile(rb"\A\xef\xbb\xbf|[\f\r]|^[ \t]*#.*coding[:=]", re.MULTILINE)
_OPENINGS = (b"(", b"[", b"{")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def laid_out(before: bytes, after: bytes) -> bytes:
    """What an edit made of a file of Python, with the lines that it changed laid out.

    Only statements are looked at that have a new line which is too long, or which opens brackets.
    """
    old = set(before.split(b"\n"))
    texts = after.split(b"\n")
    changed = {row for row, text in enumerate(texts) if text not in old}
    suspects = {row for row in changed if len(texts[row]) > WIDTH or texts[row].endswith(_OPENINGS)}
    if not suspects or _STRANGE.search(after):
        return after
    try:
        lines = after.decode().split("\n")
        spans = sorted(_spans(ast.parse(after).body, suspects), reverse=True)
    except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
        return after
    for start, end in spans:
        rows = {row - start for row in changed if start <= row < end}
        lines[start:end] = _laid_out(lines[start:end], rows)
    return "\n".join(lines).encode()


def _spans(body: Sequence[ast.AST], rows: set[int]) -> Iterator[tuple[int, int]]:
    """The lines of each statement, or of the header of one, that has one of the rows."""
    for node in body:
        first, end = _first_row(node), getattr(node, "end_lineno", None)
        if end is not None and not any(first <= row < end for row in rows):
            continue
        decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
        for one in decorators:
            yield one.lineno - 1, one.end_lineno or 0
        inner = [each for name in _BLOCKS for each in getattr(node, name, ())]
        if isinstance(node, ast.stmt):
            start = node.lineno - 1
            below = _first_row(inner[0]) if inner else end or 0
            if below > start:
                yield start, below
        yield from _spans(inner, rows)


def _first_row(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno - 1
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([getattr(node, "lineno", 1), *(one.lineno for one in decorators)]) - 1


def _laid_out(texts: list[str], changed: set[int]) -> list[str]:
    """The lines of one statement, or of the header of one."""
    lines = lines_of(texts)
    if lines is None:
        return texts
    moved = _indented(lines, changed)
    if moved:
        texts = [
            " " * moved[row] + text.lstrip() if row in moved else text
            for row, text in enumerate(texts)
        ]
        lines = lines_of(texts) or lines
    written: list[str] = []
    for row, text in enumerate(texts):
        is_new = row in changed or row in moved
        new = _wrapped(lines, row) if is_new and len(text) > WIDTH else None
        written += [text] if new is None else new
    return written


def _indented(lines: Sequence[Line], changed: set[int]) -> dict[int, int]:
    """The lines in brackets that have to move, with their indentation.

    Brackets with changed lines have what is in them one step to the right, or as far as it was if
    that is the same for all. What is in others stays with the line that opens them.
    """
    places = {row: line.indent for row, line in enumerate(lines)}
    for pair in (pair for line in lines for pair in line.opened):
        inside = [row for row in range(pair.start + 1, pair.end + 1) if lines[row].within is pair]
        closing = pair.end if lines[pair.end].closes is pair else None
        shift = places[pair.start] - lines[pair.start].indent
        rows = {pair.start, *inside, *([] if closing is None else [closing])}
        steps = {lines[row].indent - lines[pair.start].indent for row in inside}
        ends = closing is None or lines[closing].indent == lines[pair.start].indent
        is_even = len(steps) == 1 and min(steps) > 0 and ends
        if not pair.is_last or is_even or changed.isdisjoint(rows):
            places |= {row: lines[row].indent + shift for row in rows - {pair.start}}
        else:
            places |= dict.fromkeys(inside, places[pair.start] + STEP)
            places |= {} if closing is None else {closing: places[pair.start]}
    return {
        row: max(indent, 0)
        for row, indent in places.items()
        if indent != lines[row].indent and lines[row].is_code
    }


def _wrapped(lines: Sequence[Line], row: int) -> list[str] | None:
    """The lines of a line that is too long; None where that cannot be told."""
    line = lines[row]
    parts = line.parts
    if not parts or not line.is_code:
        return None
    pair = line.within
    if pair is None:
        return wrapped_statement(parts, line.indent, line.comment) if len(lines) == 1 else None
    if not pair.is_last:
        return None
    is_alone = pair.start + 1 == row and pair.end == row + 1
    if not is_alone:
        return wrapped_element(parts, line.indent, line.comment)
    is_def = lines[0].is_def and lines[0].opened[0] is pair
    return wrapped_elements(
        parts, line.indent, is_def=is_def, is_group=pair.is_group, comment=line.comment
    )
