"""Statements that go away, and statements that became others together."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, Declared, one, within
from vpatch.deriving.code import dedented, header, mark_ellipses, named, pattern
from vpatch.deriving.diff_like import change_between
from vpatch.deriving.source_code import Definition
from vpatch.deriving.strategies.inserts import insert

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import Block, SourceCode, Statement

# Longer patterns say more than what changes: they are for what no other candidate gives.
_MOST_LINES = 20
_LONG_LINES = 1000
_MOST_INSERTS = 8


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
    for find, rewrite in _beside(case, whole, ""):
        yield one("delete", within({"find": find, "rewrite": rewrite}, case.scope))
    if len(old) > 1:
        for deletions in _deletions(case, old):
            yield Candidate("delete", deletions)


def long_ones(case: Case) -> Iterator[Candidate]:
    """Propose what `deleted` and `regrouped` do for code of more lines."""
    old, new = case.difference.old, case.difference.new
    if new:
        yield from _rewrites(case, most=_LONG_LINES)
        return
    find = _patterns(case.before, old)
    for more in ({}, {"with-comments": True}) if _is_fit(find, _LONG_LINES) else ():
        yield one("delete", within({"delete": find, **more}, case.scope))


def without_comments(case: Case) -> Iterator[Candidate]:
    """Propose a `change` with which the comments of what goes away go too."""
    old, new = case.difference.old, case.difference.new
    if not old or not new or case.difference.part is not None:
        return
    sides = [
        mark_ellipses(dedented(source.lines_of(side[0].top - above, side[-1].end)))
        for source, side, above in (
            (case.before, old, 0),
            (case.after, new, _comments_above(case.after, new[0])),
        )
    ]
    change = change_between(sides[0], sides[1], with_comments=True)
    if change is not None and all(_is_fit(side, _LONG_LINES) for side in sides):
        yield one("change", within({"change": change, "with-comments": True}, case.scope))


def says_all_of(case: Case, candidate: Candidate) -> bool:
    """Whether an edit looks for all of the statements that go, and not for a part of them."""
    edit = candidate.edits[0]
    whole = _patterns(case.before, case.difference.old)
    return len(candidate.edits) == 1 and ("change" in edit or edit.get("find") == whole)


def regrouped(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` of several statements, or of one with its block."""
    yield from _rewrites(case)


def regrouped_beside(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` of statements with a neighbour.

    An expression that is a statement is found by one: alone, it would be any expression.
    """
    yield from _rewrites(case, beside=True)


def _rewrites(case: Case, *, beside: bool = False, most: int = _MOST_LINES) -> Iterator[Candidate]:
    old, new = case.difference.old, case.difference.new
    if case.difference.part is not None:
        if beside:
            yield from _headers(case)
        return
    if not old or not new:
        return
    find = _patterns(case.before, old)
    # The comments above go with the new statements where the old ones have none.
    has_comments = bool(_comments_above(case.before, old[0]))
    above = 0 if has_comments else _comments_above(case.after, new[0])
    for top in dict.fromkeys((new[0].top - above, new[0].top)):
        rewrite = mark_ellipses(dedented(case.after.lines_of(top, new[-1].end))).rstrip()
        for texts in _beside(case, find, rewrite) if beside else [(find, rewrite)]:
            if all(_is_fit(text, most) for text in texts) and texts[0] != texts[1]:
                yield one("rewrite", within({"find": texts[0], "rewrite": texts[1]}, case.scope))


def _headers(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` of the first header of a block with a neighbour."""
    sources = (case.before, case.difference.old[0]), (case.after, case.difference.new[0])
    old, new = (header(source, statement.node) for source, statement in sources)
    if old is None or new is None or case.difference.part:
        return
    for find, rewrite in _beside(case, old, new):
        yield one("rewrite", within({"find": find, "rewrite": rewrite}, case.scope))


def _comments_above(source: SourceCode, statement: Statement) -> int:
    """How many lines right above a statement are comments."""
    lines = source.lines_of(statement.first, statement.top).splitlines()
    is_comment = (line.lstrip().startswith("#") for line in reversed(lines))
    return sum(1 for _ in itertools.takewhile(bool, is_comment))


def replaced(case: Case) -> Iterator[Candidate]:
    """Propose to delete statements, and to insert the others beside a neighbour."""
    old, new = case.difference.old, case.difference.new
    if not old or not new or case.difference.part is not None:
        return
    inserts = list(itertools.islice(insert(case, new, case.difference.neighbours()), _MOST_INSERTS))
    for deletions in _deletions(case, old):
        for candidate in inserts:
            yield Candidate("rewrite", (*deletions, *candidate.edits), candidate.files)


def _deletions(case: Case, old: Sequence[Statement]) -> Iterator[tuple[Declared, ...]]:
    """Edits that delete statements: all at once, or each; a definition by its name."""
    texts = [
        named(case.before, one.node)[0]
        if isinstance(one.node, Definition)
        else pattern(case.before, one.node)
        for one in old
    ]
    ways = [[("\n".join(texts), case.scope)]]
    if len(old) > 1:
        ways.append([(text, case.scope) for text in texts])
    for way in ways:
        if all(_is_fit(text) for text, _ in way):
            for more in ({"with-comments": True}, {}):
                yield tuple(within({"delete": text, **more}, scope) for text, scope in way)


def _beside(case: Case, old: str, new: str) -> Iterator[tuple[str, str]]:
    """Patterns of statements and of what they become, with a neighbour above or below.

    Where they are all of a block, it is the header of that.
    """
    above, below = case.difference.neighbours()
    owner = case.difference.blocks[1].owner
    if above is None and owner is not None and old and new:
        head = _head_of(case.after, owner, case.difference.blocks[1])
        if head is not None:
            rest = "" if below is None else "\n    ..."
            yield (
                head + textwrap.indent(old, "    ") + rest,
                head + textwrap.indent(new, "    ") + rest,
            )
    for anchor in named(case.after, above.node) if above is not None else ():
        texts = tuple("\n".join(filter(None, (anchor, text))) for text in (old, new))
        if all(map(_is_fit, texts)):
            yield texts[0], texts[1]
    for anchor in named(case.after, below.node) if below is not None else ():
        texts = tuple("\n".join(filter(None, (text, anchor))) for text in (old, new))
        if all(map(_is_fit, texts)):
            yield texts[0], texts[1]


def _head_of(source: SourceCode, owner: ast.AST, block: Block) -> str | None:
    """What a pattern has above the statements of a block: its header, also of an `else`."""
    head = header(source, owner)
    if head is None:
        return None
    if block.statements[0].node in getattr(owner, "orelse", ()):
        return f"{head}\nelse:\n"
    return head.removesuffix("    ...")


def _patterns(source: SourceCode, statements: Sequence[Statement]) -> str:
    return "\n".join(pattern(source, each.node) for each in statements)


def _is_fit(text: str, most: int = _MOST_LINES) -> bool:
    """Whether a text can be a pattern: not too long, and without a metavariable of its own."""
    return bool(text) and "$" not in text and text.count("\n") < most
