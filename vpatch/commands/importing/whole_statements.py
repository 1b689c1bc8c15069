"""Lines of a file, with the rest of the statements that they are a part of."""

from __future__ import annotations

import ast
import textwrap

from vpatch.deriving.source_code import parsed, top_of

# A longer text would differ in every other release.
_MOST_LINES = 30
Span = tuple[int, int]


def whole_statements(content: str, first: int, last: int, *, python: bool) -> str | None:
    """Return lines of a file, with what they lack to be whole statements.

    Args:
        content: the file.
        first: the first line, from 0.
        last: the line behind the last one.
        python: whether the file is Python; in any other, each line is whole.

    Returns:
        The text; None if it would be long.
    """
    lines = content.splitlines(keepends=True)
    if not python:
        return "".join(lines[first:last])
    try:
        nodes = [node for node in ast.walk(parsed(content)) if isinstance(node, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError):
        return None
    units, blocks = [_unit(node) for node in nodes], [_lines_of(node) for node in nodes]
    span = _widen((first, last), units)
    while not _is_whole("".join(lines[slice(*span)])):
        around = [one for one in blocks if one[0] <= span[0] and span[1] <= one[1] and one != span]
        if not around:
            return None
        # A line such as `else:` is nothing without all of its statement.
        span = _widen(min(around, key=lambda one: one[1] - one[0]), units)
    return "".join(lines[slice(*span)]) if span[1] - span[0] <= _MOST_LINES else None


def _lines_of(node: ast.stmt) -> Span:
    return top_of(node), node.end_lineno or node.lineno


def _unit(node: ast.stmt) -> tuple[Span, int]:
    """The lines that need each other: of a block its header, which needs the first line in it."""
    body: list[ast.AST] = getattr(node, "body", getattr(node, "cases", []))
    top, end = _lines_of(node)
    if not body:
        return (top, end), end
    first = body[0]
    head = _lines_of(first)[0] if isinstance(first, ast.stmt) else node.lineno
    return (top, max(head, top + 1)), head + 1


def _widen(span: Span, units: list[tuple[Span, int]]) -> Span:
    """The span with all that its lines need."""
    while True:
        met = [(own, end) for own, end in units if own[0] < span[1] and span[0] < own[1]]
        first = min([span[0], *(own[0] for own, _ in met)])
        wider = first, max([span[1], *(end for _, end in met)])
        if wider == span:
            return span
        span = wider


def _is_whole(text: str) -> bool:
    """Whether a text is statements; the first ones may be in a block that ends in it."""
    text = textwrap.dedent(text)
    indents = [len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip()]
    outer = sorted({indent for indent in indents if indent < indents[0]})
    heads = "".join(f"{' ' * indent}if 1:\n" for indent in outer)
    try:
        parsed(heads + text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
