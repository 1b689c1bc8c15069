"""Lines of statements: cut where statements share one, and with the lines above them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.nodes import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULT = cst.MaybeSentinel.DEFAULT


def apart(statements: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """The statements, each on a line of its own; those that have one are the same objects."""
    parts: list[cst.CSTNode] = []
    for statement in statements:
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
            parts += [part_of(statement, i, i + 1) for i in range(len(statement.body))]
        else:
            parts.append(statement)
    return parts


def block_of(statements: Sequence[cst.CSTNode]) -> cst.IndentedBlock:
    """A block with some statements, of the code or of a pattern."""
    return cst.IndentedBlock(cast("list[cst.BaseStatement]", statements))


def part_of(line: cst.SimpleStatementLine, start: int, end: int) -> cst.SimpleStatementLine:
    """Some of the statements of a line as a line, with the comments that are at that end of it."""
    small = list(line.body[start:end])
    if end < len(line.body):
        small[-1] = small[-1].with_changes(semicolon=_DEFAULT)
        behind = cst.TrailingWhitespace()
    else:
        behind = line.trailing_whitespace
    leading = line.leading_lines if not start else ()
    return cst.SimpleStatementLine(small, leading_lines=leading, trailing_whitespace=behind)


def without_semicolon(line: cst.CSTNode) -> cst.CSTNode:
    """The same statement without a semicolon at the end of its line."""
    if not isinstance(line, cst.SimpleStatementLine):
        return line
    *rest, last = line.body
    return line.with_changes(body=[*rest, last.with_changes(semicolon=_DEFAULT)])


def above(statement: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    """The blank lines and comments above a statement."""
    return cast("cst.SimpleStatementLine", statement).leading_lines


def with_above(statement: cst.CSTNode, lines: Sequence[cst.EmptyLine]) -> cst.CSTNode:
    return statement.with_changes(leading_lines=list(lines))


def comments_in(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return [line for line in lines if line.comment is not None]


def together(
    gone: Sequence[cst.EmptyLine], following: Sequence[cst.EmptyLine], *, first: bool
) -> list[cst.EmptyLine]:
    """What is above a statement once the one above it is gone: no blank line is doubled.

    Args:
        gone: the lines above the statement that is gone; its comments stay.
        following: the lines above the statement that follows.
        first: whether a block begins with them; it gets no blank line that it had not.
    """
    blank = list(itertools.takewhile(lambda line: line.comment is None, following))
    rest = following[len(blank) :]
    comments, last = list(gone), list[cst.EmptyLine]()
    while comments and comments[-1].comment is None:
        last.append(comments.pop())
    return [*comments, *(last if first and not comments else max(last, blank, key=len)), *rest]


def below_blank_lines(
    code: list[cst.BaseStatement], behind: list[cst.CSTNode]
) -> tuple[list[cst.BaseStatement], list[cst.CSTNode]]:
    """Put code in front of a statement, below the blank lines that set that one apart.

    Definitions have blank lines of their own, above and below.
    """
    match behind:
        case [cst.SimpleStatementLine() | cst.BaseCompoundStatement() as anchor, *rest]:
            pass
        case _:
            return code, behind
    lines = list(anchor.leading_lines)
    blank = list(itertools.takewhile(lambda line: line.comment is None, lines))
    if isinstance(code[0], DEFINITIONS) or not blank:
        return code, behind
    first = cast("cst.SimpleStatementLine", code[0])
    if not first.leading_lines or first.leading_lines[0].comment is not None:
        code = [first.with_changes(leading_lines=[*blank, *first.leading_lines]), *code[1:]]
    # A comment begins a paragraph of its own.
    if not isinstance(code[-1], DEFINITIONS) and len(blank) == len(lines):
        anchor = anchor.with_changes(leading_lines=lines[len(blank) :])
    return code, [anchor, *rest]


def spaced(
    code: Sequence[cst.BaseStatement], *, nested: bool, first: bool
) -> list[cst.BaseStatement]:
    """Blank lines around definitions as PEP 8 has them: two at the top level, one inside."""
    blank = [cst.EmptyLine(indent=False)] * (1 if nested else 2)
    statements: list[cst.BaseStatement] = []
    for index, statement in enumerate(code):
        if isinstance(statement, DEFINITIONS) and not (first and index == 0):
            lines = [*blank, *comments_in(statement.leading_lines)]
            statements.append(statement.with_changes(leading_lines=lines))
        else:
            statements.append(statement)
    return statements
