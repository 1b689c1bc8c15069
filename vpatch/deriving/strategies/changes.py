"""Statements that became others, as a diff of these."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, one, within
from vpatch.deriving.code import dedented

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import SourceCode, Statement

# Longer changes say more than what changes: a text says the same.
_MOST_LINES = 20


def changed(case: Case) -> Iterator[Candidate]:
    """Propose a `change` of statements where it is shorter than what both sides have."""
    difference = case.difference
    if difference.old and difference.new and difference.part is None:
        sides = text_of(case.before, difference.old), text_of(case.after, difference.new)
        change = change_between(*sides)
        if change is not None and len(change) < sum(map(len, sides)):
            yield one("change", within({"change": change}, case.scope))


def text_of(source: SourceCode, statements: Sequence[Statement]) -> str:
    """The lines of statements, as if they were at the left margin."""
    if not statements:
        return ""
    return dedented(source.lines_of(statements[0].top, statements[-1].end))


@dataclass(frozen=True)
class _Line:
    """A line of code, and the same without its comment. `is_comment` is one of a comment alone."""

    text: str
    code: str
    is_comment: bool = False


def change_between(before: str, after: str) -> str | None:
    """The change that makes code of other code; None where no change says it."""
    try:
        old, new = _lines(before), _lines(after)
    except (tokenize.TokenError, SyntaxError):
        return None
    comments = Counter(line.text.strip() for line in old if line.is_comment)
    old = [line for line in old if line.code.strip()]
    remaining: list[_Line] = []
    for line in new:
        if line.is_comment and comments[line.text.strip()]:
            comments[line.text.strip()] -= 1
        else:
            remaining.append(line)
    marked: list[tuple[str, str]] = []
    keys = [line.code for line in old], [line.code or line.text for line in remaining]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            marked += [(" ", line.code) for line in old[first:last]]
        else:
            marked += [("-", line.code) for line in old[first:last]]
            marked += [("+", line.text) for line in remaining[other_first:other_last]]
    lines = _without_blanks(marked)
    text = "".join(f"{mark} {line}\n" for mark, line in lines)
    is_fit = "$" not in text and len(lines) <= _MOST_LINES and any(mark != " " for mark, _ in lines)
    return text if is_fit else None


def _without_blanks(marked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The lines without blank ones that have no new code above and below."""
    return [
        (mark, line)
        for number, (mark, line) in enumerate(marked)
        if line.strip()
        or all(
            0 <= near < len(marked) and marked[near][0] == "+" for near in (number - 1, number + 1)
        )
    ]


def _lines(code: str) -> list[_Line]:
    """The lines of some code.

    Raises:
        SyntaxError, tokenize.TokenError: it is not Python.
    """
    texts = code.splitlines()
    lines = {n: _Line(text, text.rstrip()) for n, text in enumerate(texts, start=1)}
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            cut = texts[row - 1][:column].rstrip()
            lines[row] = _Line(texts[row - 1], cut, is_comment=not cut)
    return list(lines.values())
