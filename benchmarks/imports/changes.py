"""A change that reads like a diff for each difference, in as many forms as there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, one, within
from vpatch.deriving.code import dedented
from vpatch.deriving.diff_like import change_between

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import SourceCode, Statement


def every_change(case: Case) -> Iterator[Candidate]:
    """Propose a `change` of statements or of a header, and then of these beside a neighbour."""
    for sides in _sides(case):
        change = change_between(*sides)
        if change is not None:
            yield one("change", within({"change": change}, case.scope))


def _sides(case: Case) -> Iterator[tuple[str, str]]:
    """The code before and after, alone where there is some, and then with a neighbour."""
    difference = case.difference
    if difference.part is not None:
        statements = difference.old[0], difference.new[0]
        if not difference.part:
            yield _header(case.before, statements[0]), _header(case.after, statements[1])
        return
    sides = _text(case.before, difference.old), _text(case.after, difference.new)
    if difference.old:
        yield sides
    above, below = difference.neighbours()
    for neighbour, is_above in ((above, True), (below, False)):
        if neighbour is not None:
            anchor = _anchor(case.after, neighbour)
            old, new = (anchor + side if is_above else side + anchor for side in sides)
            yield old, new


def _text(source: SourceCode, statements: Sequence[Statement]) -> str:
    if not statements:
        return ""
    return dedented(source.lines_of(statements[0].top, statements[-1].end))


def _anchor(source: SourceCode, statement: Statement) -> str:
    """A statement that stays: a compound one by its header."""
    return _header(source, statement) if statement.parts else _text(source, (statement,))


def _header(source: SourceCode, statement: Statement) -> str:
    """The first header of a compound statement, with a gap for its block."""
    part = statement.parts[0]
    return f"{dedented(source.lines_of(part.start, part.body.first))}    ...\n"
