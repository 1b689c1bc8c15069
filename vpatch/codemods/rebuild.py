"""Write statements anew, from those that a pattern matched and from new ones."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.fill import CannotRewrite, fill, unmarked
from vpatch.codemods.layout import split_above
from vpatch.codemods.lines import (
    above,
    apart,
    below_blank_lines,
    block_of,
    comments_in,
    spaced,
    together,
    with_above,
    without_semicolon,
)
from vpatch.codemods.match import Match, same
from vpatch.codemods.moves import flat
from vpatch.codemods.nodes import Field, code_of, is_gap, statements_of, with_others
from vpatch.codemods.rewriting import rewrite
from vpatch.codemods.rows import check_said
from vpatch.codemods.trees import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.codemods.moves import Moves

_MARK = "vpatch_kept_"
_Sources = dict[int, list[cst.CSTNode]]


@dataclass
class Rebuilt:
    """The statements in place of others.

    `new` are runs of those that nothing was made into. `orphans` are the lines above statements
    that are gone, for what comes below; None if none is gone there.
    """

    statements: list[cst.CSTNode] = field(default_factory=list)
    new: list[list[cst.CSTNode]] = field(default_factory=list)
    orphans: list[cst.EmptyLine] | None = None


class Rebuild:
    """Turns the statements that a pattern matched into others.

    What is kept has its comments and its layout, also where it gets into another block. The lines
    above a statement that becomes another one are above that.
    """

    def __init__(
        self, moves: Moves, nodes: Sequence[cst.CSTNode], match: Match, *, comments: bool
    ) -> None:
        self.moves = moves
        # Whether the comments right above what is gone or changed go too.
        self.comments = comments
        self.match = match
        self.sources = _sources(moves.old, nodes, match)
        for item in moves.old:
            if id(item) in moves.gone and not is_gap(item):
                self.sources |= _sources_inside(item, self.sources[id(item)][0], match)
        self.top = {id(inner): i for i, item in enumerate(moves.old) for inner in flat([item])}
        # The lines above the first kept statement of a new one, which are above the new one then.
        self.lifted: list[cst.EmptyLine] | None = None
        self._at = 0
        self._rebuilt = Rebuilt()

    def rebuilt(self, *, first: bool, nested: bool) -> Rebuilt:
        """The new statements.

        Args:
            first: whether they begin a block.
            nested: whether that is in a definition.

        Raises:
            CannotRewrite: code would be lost, or is not Python in its new place.
        """
        rebuilt = self._rebuilt
        for is_kept, run in itertools.groupby(self.moves.new, self.moves.has_origin):
            if is_kept:
                for statement in run:
                    self._add_kept(statement, first=first)
            else:
                self._add_new(list(run), first=first, nested=nested)
        self._pass_to(len(self.moves.old))
        return rebuilt

    def _add_new(self, run: Sequence[cst.CSTNode], *, first: bool, nested: bool) -> None:
        rebuilt = self._rebuilt
        self._pass_to(self._end(run[-1]))
        written = [self._fill(statement) for statement in run]
        orphans = self._lines(self.lifted)
        begins = first and not rebuilt.statements
        if orphans is None:
            code = spaced(cast("list[cst.BaseStatement]", written), nested=nested, first=begins)
            written = list(code)
        else:
            written[0] = with_above(written[0], [*orphans, *comments_in(above(written[0]))])
        rebuilt.new.append(written)
        rebuilt.statements += written

    def _add_kept(self, statement: cst.CSTNode, *, first: bool) -> None:
        rebuilt = self._rebuilt
        origin = cast("cst.CSTNode", self.moves.origin(statement))
        top = self.top[id(origin)]
        self._pass_to(top + (id(self.moves.old[top]) in self.moves.gone))
        written = list(self.sources[id(origin)])
        if id(statement) in self.moves.changed:
            (node,) = written
            lines = [*self._above(node), *comments_in(above(statement))]
            new = rewrite(origin, statement, node, self.match, None)
            written = [with_above(new, lines)]
        begins = not rebuilt.statements
        orphans = self._lines(None)
        if written and orphans is not None:
            lines = together(orphans, above(written[0]), first=first and begins)
            written[0] = with_above(written[0], lines)
        elif written and rebuilt.new == [rebuilt.statements] and not self._at:
            # In front of all that is kept, as `insert` with `before` does.
            code = cast("list[cst.BaseStatement]", rebuilt.statements)
            rebuilt.statements[:], written = below_blank_lines(code, written)
        elif orphans is not None:
            rebuilt.orphans = orphans
        rebuilt.statements += written
        self._at = max(self._at, top + 1)

    def _lines(self, lifted: Sequence[cst.EmptyLine] | None) -> list[cst.EmptyLine] | None:
        """The lines that are left of statements before, which somebody takes now."""
        orphans, self._rebuilt.orphans, self.lifted = self._rebuilt.orphans, None, None
        if orphans is None or lifted is None:
            return orphans if lifted is None else list(lifted)
        return [*orphans, *comments_in(lifted)]

    def _end(self, statement: cst.CSTNode) -> int:
        """Where the statements end that a new one is in place of: at the next that is kept."""
        ids = [id(one) for one in self.moves.new]
        for other in self.moves.new[ids.index(id(statement)) + 1 :]:
            origin = self.moves.first_kept_in(other)
            if origin is not None:
                return self.top[id(origin)]
        return len(self.moves.old)

    def _pass_to(self, end: int) -> None:
        """Go on to a statement of the pattern. Of those before it, the ones that are gone end."""
        for item in self.moves.old[self._at : end]:
            if id(item) not in self.moves.gone or is_gap(item):
                continue
            (node,) = self.sources[id(item)]
            if self.moves.new:
                check_said(item, node, self.match)
            else:
                _check_branches(item, node)
            lines, orphans = self._above(node), self._rebuilt.orphans
            self._rebuilt.orphans = lines if orphans is None else [*orphans, *comments_in(lines)]
        self._at = max(self._at, end)

    def _above(self, node: cst.CSTNode) -> list[cst.EmptyLine]:
        """The lines above a statement that goes, or becomes another one."""
        return split_above(above(node))[0] if self.comments else list(above(node))

    def _fill(self, statement: cst.CSTNode) -> cst.CSTNode:
        """A new statement, with what it keeps inside."""

        def mark_of(node: cst.CSTNode) -> cst.CSTNode | None:
            if id(node) not in self.moves.unchanged:
                return None
            return cst.SimpleStatementLine([cst.Expr(cst.Name(f"{_MARK}{id(node)}"))])

        # A mark is in place of each statement that comes from the pattern.
        new = fill(unmarked(with_others(statement, mark_of)), self.match)
        return cast("cst.CSTNode", new.visit(_Unmark(self)))

    def statements_for(self, name: str) -> list[cst.CSTNode]:
        """The statements that a mark is in place of."""
        sources = self.sources[id(self.moves.unchanged[int(name.removeprefix(_MARK))])]
        lines = list(map(without_semicolon, sources))
        if lines and self.lifted is None:
            self.lifted = self._above(lines[0])
            lines[0] = with_above(lines[0], [])
        return lines


def _sources(
    pattern: Sequence[cst.CSTNode], nodes: Sequence[cst.CSTNode], match: Match
) -> _Sources:
    """The statements that each statement of a pattern matched; of gaps too."""
    sources: _Sources = {}
    places = {id(node): index for index, node in enumerate(nodes)}
    ends = [None if is_gap(item) else places[id(match.paired[id(item)])] for item in pattern]
    at = 0
    for index, (item, place) in enumerate(zip(pattern, ends, strict=True)):
        if place is not None:
            sources[id(item)] = [nodes[place]]
            at = place + 1
        else:
            following = ends[index + 1] if index + 1 < len(ends) else len(nodes)
            end = at if following is None else following
            sources[id(item)] = list(nodes[at:end])
            at = end
    return sources


def _sources_inside(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> _Sources:
    """The same for the statements in the blocks of one, at whatever depth."""
    sources: _Sources = {}
    if not isinstance(pattern, cst.BaseCompoundStatement):
        return sources
    block = _with_lines(node)
    inner = Match(dict(match.bindings), spellings=match.spellings)
    if not same(pattern, block, inner):
        raise CannotRewrite(f"is spelt in an odd way: {code_of(node).strip()[:60]}")
    for suite, other in _suites(pattern, block):
        statements = statements_of(suite)
        sources |= _sources(statements, statements_of(other), inner)
        for item in statements:
            if not is_gap(item):
                sources |= _sources_inside(item, sources[id(item)][0], inner)
    return sources


def _with_lines(part: cst.CSTNode) -> cst.CSTNode:
    """A statement with lines for what is behind its headers. What is inside stays as it is."""
    changes: dict[str, Field] = {}
    for name in BLOCKS:
        value = getattr(part, name, None)
        if isinstance(value, cst.SimpleStatementSuite):
            changes[name] = block_of(apart([cst.SimpleStatementLine(value.body)]))
        elif isinstance(value, (list, tuple)):
            changes[name] = [_with_lines(each) for each in value]
        elif isinstance(value, cst.CSTNode) and not isinstance(value, cst.IndentedBlock):
            changes[name] = _with_lines(value)
    return part.with_changes(**changes)


def _suites(pattern: object, node: object) -> Iterator[tuple[cst.BaseSuite, cst.BaseSuite]]:
    """The blocks of a pattern of a statement, each with the one that it matched."""
    if isinstance(pattern, cst.BaseSuite) and isinstance(node, cst.BaseSuite):
        yield pattern, node
        return
    if type(pattern) is not type(node):
        raise CannotRewrite(
            "an elif is written as an else with an if there, or the other way round"
        )
    for name in BLOCKS:
        wanted, actual = getattr(pattern, name, None), getattr(node, name, None)
        if isinstance(wanted, (list, tuple)) and isinstance(actual, (list, tuple)):
            for one, other in zip(wanted, actual, strict=True):
                yield from _suites(one, other)
        elif wanted is not None:
            yield from _suites(wanted, actual)


def _check_branches(pattern: cst.CSTNode, node: cst.CSTNode) -> None:
    """Check that no `else` or `finally` of a statement goes that the pattern leaves out.

    Raises:
        CannotRewrite: one does.
    """
    for name in ("orelse", "finalbody"):
        if getattr(node, name, None) is not None and getattr(pattern, name, None) is None:
            word = "else" if name == "orelse" else "finally"
            raise CannotRewrite(f"the statement has an {word} that the pattern leaves out")


class _Unmark(cst.CSTTransformer):
    def __init__(self, rebuild: Rebuild) -> None:
        super().__init__()
        self.rebuild = rebuild

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        match original_node.body:
            case [cst.Expr(value=cst.Name(value=name))] if name.startswith(_MARK):
                lines = cast("list[cst.BaseStatement]", self.rebuild.statements_for(name))
                return cst.FlattenSentinel(lines)
        return updated_node

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        del original_node
        if updated_node.body:
            return updated_node
        return updated_node.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])])
