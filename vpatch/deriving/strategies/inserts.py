"""Statements and definitions that were not there before."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from vpatch.declare.edits import MODULE
from vpatch.deriving.candidate import Candidate, Case, Declared, one, within
from vpatch.deriving.code import dedented, mark_ellipses, named, names_in
from vpatch.deriving.source_code import is_docstring

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import Statement

# From here on, code is easier to read in a file of its own.
_LONG = 25
# How many statements above and below say together where code goes.
_CONTEXTS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 3))


def inserted(case: Case) -> Iterator[Candidate]:
    """Propose `insert`, beside a neighbour or at an end of the block."""
    difference = case.difference
    if difference.old or not difference.new:
        return
    yield from insert(case, difference.new, difference.neighbours())


def insert(
    case: Case,
    statements: Sequence[Statement],
    neighbours: tuple[Statement | None, Statement | None],
) -> Iterator[Candidate]:
    """Propose to insert statements of the new file."""
    if any(statement.shares_line for statement in statements):
        return
    lines = case.after.lines_of(statements[0].first, statements[-1].end)
    code = dedented(lines).rstrip("\n") + "\n"
    stripped = code.lstrip("\n")
    places = list(_places(case, statements, neighbours))
    # Where the statement below got blank lines, they go with the code.
    behind = case.after.lines[statements[-1].end : case.difference.after[1]]
    blank = "".join(itertools.takewhile(lambda line: not line.strip(), behind))
    texts = [stripped, code, f"{stripped}{blank}", f"{code}{blank}"]
    for text in dict.fromkeys(texts):
        snippet, files = _snippet(statements, text)
        for place in places:
            yield one("insert", {"insert": snippet, **place}, files)


def inserted_between(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` of both neighbours, where neither alone is there once."""
    difference = case.difference
    if difference.old or not difference.new:
        return
    block, start = difference.blocks[1].statements, difference.indices[1]
    stop = start + len(difference.new)
    lines = case.after.lines_of(difference.new[0].first, difference.new[-1].end)
    code = mark_ellipses(dedented(lines)).strip("\n")
    for above, below in _CONTEXTS:
        if start < above or stop + below > len(block) or "$" in code:
            continue
        sides = (block[start - above : start], block[stop : stop + below])
        anchors = [[named(case.after, each.node)[:1] for each in side] for side in sides]
        if not all(map(all, anchors)):
            continue
        top, bottom = ([text for (text,) in side] for side in anchors)
        find, rewrite = ("\n".join(part) for part in ([*top, *bottom], [*top, code, *bottom]))
        yield one("rewrite", within({"find": find, "rewrite": rewrite}, case.scope))


def _snippet(statements: Sequence[Statement], code: str) -> tuple[str | Declared, dict[str, bytes]]:
    """The code as a declaration has it, and the files beside the patch that it needs."""
    definitions = [s.name for s in statements if s.name is not None]
    # In a declaration, a $ begins a metavariable.
    if not definitions and "$" not in code and code.count("\n") < _LONG:
        return code.removesuffix("\n") if code.count("\n") == 1 else code, {}
    name = f"{definitions[0] if definitions else 'code'}.py"
    if len(statements) == 1 and definitions:
        return {"from": name, "name": definitions[0]}, {name: code.lstrip("\n").encode()}
    return {"from": name}, {name: code.encode()}


def _places(
    case: Case,
    statements: Sequence[Statement],
    neighbours: tuple[Statement | None, Statement | None],
) -> Iterator[Declared]:
    above, below = neighbours
    last: list[Declared] = []
    for key, statement in _order(statements, above, below):
        for text in named(case.after, statement.node):
            place = within({key: text}, case.scope_of(statement.node))
            if "\n" in text.removesuffix(":\n    ..."):
                # All of a long statement says more than a place.
                last.append(place)
            else:
                yield place
    yield from _ends(case, above, below)
    yield from last


def _ends(case: Case, above: Statement | None, below: Statement | None) -> Iterator[Declared]:
    block = case.difference.blocks[1]
    if block.owner is None and below is None:
        yield {"at-end-of": MODULE}
    if block.owner is None or not isinstance(block.owner, ast.stmt):
        return
    for text in named(case.after, block.owner):
        if below is None:
            yield within({"at-end-of": text}, case.scope)
        if above is None or is_docstring(above.node):
            yield within({"at-start-of": text}, case.scope)


def _order(
    statements: Sequence[Statement], above: Statement | None, below: Statement | None
) -> list[tuple[str, Statement]]:
    """The neighbours, first the one that the code has to do with."""
    places = [("after", above), ("before", below)]
    bound, read = names_in(statements)
    if above is not None and below is not None:
        with_above = read & names_in([above])[0]
        with_below = bound & names_in([below])[1]
        if with_below and not with_above:
            places.reverse()
    return [(key, one) for key, one in places if one is not None]
