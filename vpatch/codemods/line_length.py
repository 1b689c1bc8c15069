"""Lay out the lines that an edit changed: no longer than they may be, and indented by their place.

What is in brackets is indented by the line that opens them. Lines that were there stay as they are.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from vpatch.codemods.tokens import TokenLine, lines_of
from vpatch.codemods.trees import STRANGE_LINES, first_line, inner_parts
from vpatch.codemods.wrapping import (
    STEP,
    WIDTH,
    wrapped_element,
    wrapped_elements,
    wrapped_statement,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A line with a text or a comment may be longer than others, and so may one without arguments.
_HAS_TEXT = re.compile(rb"[\"'#]")
_HAS_ARGUMENTS = re.compile(rb"\w\(.*, |, \w+=")
_OPENINGS = (b"(", b"[", b"{")


def laid_out(before: bytes, after: bytes) -> bytes:
    """What an edit made of a file of Python, with the lines that it changed laid out.

    Only statements are looked at that have a new line which is too long, or which opens brackets.
    `before` is the whole file; of `after`, statements may be left out. A file that has longer lines
    of code keeps another limit, which nothing tells: no line of it is broken.
    """
    old = set(before.split(b"\n"))
    texts = after.split(b"\n")
    changed = {row for row, text in enumerate(texts) if text not in old}
    suspects = {row for row in changed if len(texts[row]) > WIDTH or texts[row].endswith(_OPENINGS)}
    if not suspects or STRANGE_LINES.search(after):
        return after
    try:
        lines = after.decode().split("\n")
        tree = ast.parse(after)
        spans = sorted(_spans(tree.body, suspects), reverse=True)
    except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
        return after
    is_wide = any(len(text) > WIDTH and _is_breakable(text) for text in old)
    for start, end in spans:
        rows = {row - start for row in changed if start <= row < end}
        lines[start:end] = _lay_out(lines[start:end], rows, breaks=not is_wide)
    result = "\n".join(lines).encode()
    is_same = result == after or ast.dump(ast.parse(result)) == ast.dump(tree)
    return result if is_same else after


def _is_breakable(text: bytes) -> bool:
    return bool(_HAS_ARGUMENTS.search(text)) and not _HAS_TEXT.search(text)


def _spans(body: Sequence[ast.AST], rows: set[int]) -> Iterator[tuple[int, int]]:
    """The lines of each statement, or of the header of one, that has one of the rows."""
    for node in body:
        first, end = first_line(node) - 1, getattr(node, "end_lineno", None)
        if end is not None and not any(first <= row < end for row in rows):
            continue
        decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
        for one in decorators:
            yield one.lineno - 1, one.end_lineno or 0
        inner = list(inner_parts(node))
        if isinstance(node, ast.stmt):
            start = node.lineno - 1
            below = first_line(inner[0]) - 1 if inner else end or 0
            if below > start:
                yield start, below
        yield from _spans(inner, rows)


def _lay_out(texts: list[str], changed: set[int], *, breaks: bool) -> list[str]:
    """The lines of one statement, or of the header of one."""
    texts, changed, lines = _with_own_lines(texts, changed)
    if lines is None:
        return texts
    moved = _indents(lines, changed)
    if moved:
        texts = [
            " " * moved[row] + text.lstrip() if row in moved else text
            for row, text in enumerate(texts)
        ]
        lines = lines_of(texts) or lines
    written: list[str] = []
    for row, text in enumerate(texts):
        is_new = breaks and (row in changed or row in moved)
        new = _wrap(lines, row) if is_new and len(text) > WIDTH else None
        written += [text] if new is None else new
    return written


def _with_own_lines(
    texts: list[str], changed: set[int]
) -> tuple[list[str], set[int], list[TokenLine] | None]:
    """Put a call on lines of its own which is the only argument of a new call around it.

    The new one opens its brackets in the line that opens those of the call, and closes them so.
    """
    lines = lines_of(texts)
    if lines is None:
        return texts, changed, None
    for row in sorted(changed):
        outer, inner = [None, None, *lines[row].opened][-2:]
        if outer is None or inner is None or not inner.is_last or not inner.end == outer.end > row:
            continue
        head, call = texts[row][: outer.column + 1], texts[row][outer.column + 1 :]
        tail = texts[outer.end].lstrip()
        if "," in call or lines[outer.end].closes is not inner or tail[1] not in ")]}":
            continue
        step, base = " " * (lines[row].indent + STEP), " " * lines[row].indent
        texts = [
            *texts[:row],
            head,
            step + call.lstrip(),
            *texts[row + 1 : outer.end],
            step + tail[0],
            base + tail[1:],
            *texts[outer.end + 1 :],
        ]
        moved = {each + (each > row) + (each >= outer.end) for each in changed}
        return _with_own_lines(texts, moved | {row, row + 1, outer.end + 1, outer.end + 2})
    return texts, changed, lines


def _indents(lines: Sequence[TokenLine], changed: set[int]) -> dict[int, int]:
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


def _wrap(lines: Sequence[TokenLine], row: int) -> list[str] | None:
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
