"""A rewrite of several lines, as a change that reads like a diff."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vpatch.deriving.candidate import Candidate, Declared

_LINES_OF_A_REWRITE = 2


def as_change(candidate: Candidate) -> Candidate | None:
    """The same edits with a `change` for each rewrite that has more lines; None where none has."""
    edits = tuple(map(_as_change, candidate.edits))
    if edits == candidate.edits:
        return None
    return replace(candidate, kind="change", edits=edits)


def _as_change(edit: Declared) -> Declared:
    match edit:
        case {"find": str(find), "rewrite": str(rewrite), **others}:
            sides = f"{find.rstrip()}\n", f"{rewrite.rstrip()}\n"
            change = change_between(*sides)
            # A gap may match more in a change: see `DiffLikeRewrite`.
            is_longer = sum(side.count("\n") for side in sides) > _LINES_OF_A_REWRITE
            if change is not None and is_longer and "..." not in find:
                return {"change": change, **others}
    return edit


@dataclass(frozen=True)
class _Line:
    """A line of code, and the same without its comment. `is_comment` is one of a comment alone."""

    text: str
    code: str
    is_comment: bool = False


def change_between(before: str, after: str, *, with_comments: bool = False) -> str | None:
    """The change that makes code of other code; None where no change says it.

    Comments of the code before stay. So new lines do not have them, but `with_comments`.
    """
    try:
        old, new = _lines(before), _lines(after)
    except (tokenize.TokenError, SyntaxError):
        return None
    comments = Counter(line.text.strip() for line in old if line.is_comment and not with_comments)
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
    is_fit = "$" not in text and any(mark != " " for mark, _ in lines)
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
