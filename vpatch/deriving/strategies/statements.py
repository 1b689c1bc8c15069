"""Statements that go away, and statements that became others together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, one, within
from vpatch.deriving.code import dedented, named, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import SourceCode, Statement

# Longer patterns say more than what changes: a text says the same.
_MOST_LINES = 20


def deleted(case: Case) -> Iterator[Candidate]:
    """Propose `delete`, and a `rewrite` that keeps a neighbour where the place needs one."""
    old = case.difference.old
    if not old or case.difference.new:
        return
    whole = _patterns(case.before, old)
    texts = [*named(case.before, old[0].node), whole] if len(old) == 1 else [whole]
    scope = case.scope_of(old[0].node) if len(old) == 1 else case.scope
    for text in dict.fromkeys(text for text in texts if _is_fit(text)):
        yield one("delete", within({"delete": text}, scope))
        yield one("delete", within({"delete": text, "with-comments": True}, scope))
    for neighbours, order in zip(case.difference.neighbours(), ("above", "below"), strict=True):
        if neighbours is None:
            continue
        for anchor in named(case.after, neighbours.node):
            find = f"{anchor}\n{whole}" if order == "above" else f"{whole}\n{anchor}"
            if _is_fit(find):
                yield one("delete", within({"find": find, "rewrite": anchor}, case.scope))


def regrouped(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` of several statements, or of one with its block."""
    old, new = case.difference.old, case.difference.new
    if not old or not new or case.difference.part is not None:
        return
    find = _patterns(case.before, old)
    lines = "".join(case.after.lines_of(new[0].top, new[-1].end))
    rewrite = dedented(lines).rstrip()
    if _is_fit(find) and _is_fit(rewrite) and find != rewrite:
        yield one("rewrite", within({"find": find, "rewrite": rewrite}, case.scope))


def _patterns(source: SourceCode, statements: Sequence[Statement]) -> str:
    return "\n".join(pattern(source, each.node) for each in statements)


def _is_fit(text: str) -> bool:
    """Whether a text can be a pattern: not too long, and without a metavariable of its own."""
    return bool(text) and "$" not in text and text.count("\n") < _MOST_LINES
