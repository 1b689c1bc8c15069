"""Where statements that follow each other are in a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.lines import apart, block_of
from vpatch.codemods.match import Match, same
from vpatch.codemods.nodes import behind_docstring, is_gap, statements_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.spelling import Spellings


@dataclass(frozen=True)
class Window:
    """Some statements of a block, which a pattern matches: from `start` up to `end`.

    `first` is the number of the first that no gap matches.
    """

    start: int
    end: int
    first: int
    match: Match
    nodes: Sequence[cst.CSTNode]

    @property
    def definition(self) -> cst.CSTNode | None:
        """The statement, if it is one alone: a definition is within itself."""
        return self.nodes[0] if len(self.nodes) == 1 else None


def sites_in(block: cst.CSTNode) -> list[cst.CSTNode]:
    """The same statements as they are in the block; of a line, what is on it."""
    if isinstance(block, cst.SimpleStatementSuite):
        return list(block.body)
    if not isinstance(block, (cst.Module, cst.IndentedBlock)):
        return [block]
    sites: list[cst.CSTNode] = []
    for statement in block.body:
        sites += statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    return sites


def statements_in(block: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of a module or a block, each on a line of its own; or the one that it is."""
    if isinstance(block, cst.Module):
        return apart(block.body)
    return apart(statements_of(block)) if isinstance(block, cst.BaseSuite) else [block]


def windows_of(
    pattern: Pattern,
    statements: Sequence[cst.CSTNode],
    spellings: Spellings,
    taken: Container[int] = (),
) -> Iterator[Window]:
    """The places of a pattern among the statements of a block, without those that are `taken`.

    A gap at the beginning reaches up to the beginning of the block, below its docstring. One at the
    end reaches to the end.
    """
    items = statements_of(cast("cst.BaseSuite", pattern.node))
    fewest = sum(not is_gap(item) for item in items)
    start = behind_docstring(statements)
    last = start if is_gap(items[0]) else len(statements) - fewest
    while start <= last:
        window = _window_at(start, items, pattern, statements, spellings, taken)
        if window is not None:
            yield window
        start = start + 1 if window is None else window.end


def _window_at(
    start: int,
    items: Sequence[cst.CSTNode],
    pattern: Pattern,
    statements: Sequence[cst.CSTNode],
    spellings: Spellings,
    taken: Container[int],
) -> Window | None:
    first = items[0]
    if not is_gap(first) and not same(first, statements[start], Match(spellings=spellings)):
        return None
    fewest = sum(not is_gap(item) for item in items)
    ends: Sequence[int] = range(start + fewest, len(statements) + 1)
    if is_gap(items[-1]):
        ends = ends[-1:]
    elif fewest == len(items):
        ends = ends[:1]
    for end in ends:
        if any(number in taken for number in range(start, end)):
            return None
        nodes = statements[start:end]
        match = pattern.match(block_of(nodes), spellings)
        if match is not None:
            named = match.paired[id(next(item for item in items if not is_gap(item)))]
            number = next(n for n, node in enumerate(nodes, start) if node is named)
            return Window(start, end, number, match, nodes)
    return None
