"""Find the places of statements that follow each other, and write them anew."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.base import SiteTransformer
from vpatch.codemods.comments import lost_comment
from vpatch.codemods.fill import CannotRewrite
from vpatch.codemods.layout import split_above
from vpatch.codemods.lines import above, block_of, comments_in, part_of, together, with_above
from vpatch.codemods.match import same_code
from vpatch.codemods.moves import holds
from vpatch.codemods.rebuild import Rebuild, Rebuilt
from vpatch.codemods.spelling import Spellings
from vpatch.codemods.standing import one_by_one, repeat_of
from vpatch.codemods.windows import Window, sites_in, statements_in, windows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.statement_change import StatementChange

_Block = cst.Module | cst.IndentedBlock


class BlockTransformer(SiteTransformer):
    """Turns the statements of each block that a pattern matches into others."""

    kinds = (cst.Module, cst.IndentedBlock)

    def __init__(self, spec: StatementChange) -> None:
        super().__init__(spec.place, tuple(form.names for form in spec.forms))
        self.spec = spec
        self.always_found = spec.replace is not None and holds(
            spec.replace.node, lambda block: any(windows_of(spec.find, block, Spellings()))
        )
        self.todo: dict[int, list[Window]] = {}
        # Statements in which nothing is looked for.
        self.closed: set[int] = set()

    def enter(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Module, cst.IndentedBlock)):
            self._look(node)
        elif isinstance(node, cst.SimpleStatementSuite):
            todo, done = self._windows(node)
            self._refuse(node, todo, "is on the line of a block's header")
            self._report(node, done)
        elif isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            problem = f"an elif can become nothing but another elif: {self.spec.replace}"
            if self.spec.replace is None:
                problem = "is an elif, which is a part of another statement"
            self._refuse(node.orelse, self._windows(node.orelse)[0], problem)
        return id(node) not in self.closed

    def _windows(self, block: cst.CSTNode) -> tuple[list[Window], list[Window]]:
        """Where the old code is, and where the new code is.

        The new code may hold the old, or the old the new.
        """
        statements = statements_in(block)
        windows: dict[bool, list[Window]] = {True: [], False: []}
        taken: set[int] = set()
        for is_done in (self.always_found, not self.always_found):
            pattern = self.spec.replace if is_done else self.spec.find
            if pattern is None or pattern not in self.spec.forms:
                continue
            for window in windows_of(pattern, statements, self.spellings, taken):
                if self.place.admits(self.scope, window.match, window.definition):
                    windows[is_done].append(window)
                    taken.update(range(window.start, window.end))
        return windows[False], windows[True]

    def _look(self, block: _Block) -> None:
        todo, done = self._windows(block)
        self.todo[id(block)] = todo
        self._report(block, done)
        for window in (*todo, *(done if self.spec.recognised else ())):
            self.closed.update(map(id, window.nodes))

    def _report(self, block: cst.CSTNode, done: Sequence[Window]) -> None:
        sites, recognised = sites_in(block), self.spec.recognised
        for window in done:
            if self._unreached.isdisjoint(map(id, window.nodes)):
                site = sites[window.first]
                self.add(site, todo=False, match=window.match, recognised=recognised)

    def _refuse(self, block: cst.CSTNode, todo: Sequence[Window], problem: str) -> None:
        sites = sites_in(block)
        for window in todo:
            self.add(sites[window.first], todo=True, match=window.match, problem=problem)

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        windows = self.todo.pop(id(original), [])
        if not windows:
            return updated
        before, after = cast("_Block", original), cast("_Block", updated)
        rebuilds: list[tuple[Window, Rebuilt]] = []
        sites, statements = sites_in(before), statements_in(before)
        for window in windows:
            rebuilt = self._rebuild(window, sites[window.first], statements)
            if rebuilt is not None:
                rebuilds.append((window, rebuilt))
        return _Writer(before, after).written(rebuilds) if rebuilds else updated

    def _rebuild(
        self, window: Window, site: cst.CSTNode, statements: Sequence[cst.CSTNode]
    ) -> Rebuilt | None:
        """What becomes of some statements; None where that is nothing else, or a problem."""
        match = window.match
        rebuild = Rebuild(self.spec.moves, window.nodes, match, comments=self.spec.comments)
        try:
            rebuilt = rebuild.rebuilt(first=not window.start, nested=bool(self.scope))
        except CannotRewrite as error:
            self.add(site, todo=True, match=match, problem=str(error))
            return None
        old = block_of(window.nodes)
        if self.spec.comments and self.spec.replace is None:
            rebuilt.orphans, _ = split_above(above(window.nodes[0]))
        elif not self.spec.comments:
            problem = lost_comment(old, [*rebuilt.statements, *(rebuilt.orphans or ())])
            if problem is not None:
                self.add(site, todo=True, match=match, problem=problem)
                return None
        if rebuilt.statements and same_code(old, block_of(rebuilt.statements)):
            self.add(site, todo=False, match=match)
            return None
        # Whether statements that are new are elsewhere in the block.
        inside = range(window.start, window.end)
        repeats = (repeat_of(one_by_one(run), statements, inside) for run in rebuilt.new)
        self.add(site, todo=True, match=match, repeat=next(filter(None, repeats), None))
        return rebuilt


@dataclass
class _Writer:
    """Writes a block with some of its statements made anew."""

    before: _Block
    after: _Block
    body: list[cst.CSTNode] = field(default_factory=list)
    orphans: list[cst.EmptyLine] | None = None

    def written(self, rebuilds: Sequence[tuple[Window, Rebuilt]]) -> cst.CSTNode:
        by_start = {window.start: (window.end, rebuilt) for window, rebuilt in rebuilds}
        taken = {n for window, _ in rebuilds for n in range(window.start, window.end)}
        at = 0
        for line, after in zip(self.before.body, self.after.body, strict=True):
            small = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
            numbers = range(at, at + len(small))
            at += len(small)
            if taken.isdisjoint(numbers):
                self._add([after])
                continue
            for is_taken, group in itertools.groupby(numbers, taken.__contains__):
                part = list(group)
                if not is_taken:
                    start = part[0] - numbers[0]
                    whole = cast("cst.SimpleStatementLine", line)
                    self._add([part_of(whole, start, start + len(part))])
                for number in part if is_taken else ():
                    if number in by_start:
                        rebuilt = by_start[number][1]
                        self._add(rebuilt.statements)
                        self._leave(rebuilt.orphans)
        return self._block()

    def _add(self, statements: Sequence[cst.CSTNode]) -> None:
        if statements and self.orphans is not None:
            lines = together(self.orphans, above(statements[0]), first=not self.body)
            statements = [with_above(statements[0], lines), *statements[1:]]
            self.orphans = None
        self.body += statements

    def _leave(self, lines: list[cst.EmptyLine] | None) -> None:
        if lines is not None:
            self.orphans = lines if self.orphans is None else [*self.orphans, *comments_in(lines)]

    def _block(self) -> cst.CSTNode:
        """The block; the comments above what is gone are at its end, if nothing is below."""
        comments = comments_in(self.orphans or ())
        if not self.body and isinstance(self.after, cst.IndentedBlock):
            self.body = [cst.SimpleStatementLine([cst.Pass()], leading_lines=comments)]
            comments = []
        footer = [*comments, *self.after.footer]
        if isinstance(self.after, cst.Module) and not (self.body or self.after.header or footer):
            return self.after.with_changes(body=[], has_trailing_newline=False)
        return self.after.with_changes(body=self.body, footer=footer)
