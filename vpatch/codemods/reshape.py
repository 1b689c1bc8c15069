"""Rewrite a simple statement as a compound one, or the other way round.

A simple statement may share its line with others, and a compound one may not.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.base import SiteTransformer
from vpatch.codemods.rewriting import CannotRewrite, put
from vpatch.codemods.successor import shows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.base import Scope
    from vpatch.codemods.match import Match
    from vpatch.codemods.pattern import Pattern


def changes_shape(find: Pattern, replace: Pattern) -> bool:
    """Whether one of the two is a compound statement and the other is not."""
    kinds = [isinstance(p.node, cst.BaseCompoundStatement) for p in (find, replace)]
    return kinds[0] != kinds[1]


class Reshape(SiteTransformer):
    """Turns what `find` matches into `replace`, where one of the two is a compound statement.

    An expression means a statement that consists of it.
    """

    def __init__(self, find: Pattern, replace: Pattern, place: Scope) -> None:
        self.grows = isinstance(replace.node, cst.BaseCompoundStatement)
        compound = replace.node if self.grows else find.node
        self.kinds = (cst.SimpleStatementLine, cst.SimpleStatementSuite, type(compound))
        super().__init__(place, (find.names, replace.names))
        self.find = find
        self.replace = replace
        self.elifs: set[int] = set()
        self.recognised = shows(find, replace)
        self.finished: set[int] = set()

    def enter(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.If) and node.orelse is not None:
            self.elifs.add(id(node.orelse))
        candidates: Sequence[cst.CSTNode] = [node] if self.grows else []
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            candidates = [] if self.grows else node.body
        elif not self.grows and self._matched(self.find, node):
            return False  # what is looked for may hold what it becomes
        for statement in candidates:
            match = self._matched(self.replace, statement)
            if match is not None:
                self.add(statement, todo=False, match=match, recognised=self.recognised)
                if self.recognised:
                    self.finished.add(id(statement))
        return id(node) not in self.finished

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if id(original) in self.finished:
            return updated
        match updated:
            case cst.SimpleStatementLine() if self.grows:
                return self._grown(cast("cst.SimpleStatementLine", original), updated)
            case cst.SimpleStatementSuite() if self.grows:
                self._refuse(cast("cst.SimpleStatementSuite", original).body)
            case cst.BaseCompoundStatement() if not self.grows:
                return self._shrunk(original, updated)
        return updated

    def _matched(self, pattern: Pattern, statement: cst.CSTNode) -> Match | None:
        node = statement.value if isinstance(statement, cst.Expr) else statement
        match = pattern.match(node, self.spellings)
        return match if match and self.place.admits(self.scope, match, node) else None

    def _refuse(self, statements: Sequence[cst.BaseSmallStatement]) -> None:
        for statement in statements:
            match = self._matched(self.find, statement)
            if match is not None:
                problem = "is on the line of a block's header, where no compound statement may"
                self.add(statement, todo=True, match=match, problem=problem)

    def _grown(
        self, original: cst.SimpleStatementLine, line: cst.SimpleStatementLine
    ) -> cst.CSTNode:
        """The line, cut where a statement of it becomes a compound one."""
        parts: list[cst.BaseStatement] = []
        kept: list[cst.BaseSmallStatement] = []
        sites: list[tuple[cst.CSTNode, Match]] = []
        for before, small in zip(original.body, line.body, strict=True):
            match = self._matched(self.find, small)
            if match is None:
                kept.append(small)
                continue
            sites.append((before, match))
            node = small.value if isinstance(small, cst.Expr) else small
            try:
                new = put(self.find.node, self.replace.node, node, match, line)
            except CannotRewrite as error:
                self.add(before, todo=True, match=match, problem=str(error))
                return line
            parts += [*_line_of(kept), cast("cst.BaseCompoundStatement", new)]
            kept = []
        if not sites:
            return line
        parts += _line_of(kept)
        if kept:
            parts[-1] = parts[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        parts[0] = _below(line.leading_lines, parts[0])
        problem = lost_comment(line, parts)
        for site, match in sites:
            self.add(site, todo=True, match=match, problem=problem)
        return line if problem else cast("cst.CSTNode", cst.FlattenSentinel(parts))

    def _shrunk(self, original: cst.CSTNode, statement: cst.BaseCompoundStatement) -> cst.CSTNode:
        match = self._matched(self.find, statement)
        if match is None:
            return statement
        problem: str | None = None
        line: cst.BaseStatement = cst.SimpleStatementLine([])
        if id(original) in self.elifs:
            problem = f"an elif can become nothing but another elif: {self.replace}"
        try:
            new = put(self.find.node, self.replace.node, statement, match, None)
        except CannotRewrite as error:
            problem = str(error)
        else:
            small: cst.CSTNode = cst.Expr(new) if isinstance(new, cst.BaseExpression) else new
            line = line.with_changes(body=[small], leading_lines=statement.leading_lines)
            problem = problem or lost_comment(statement, [line])
        self.add(original, todo=True, match=match, problem=problem)
        return statement if problem else line


def lost_comment(before: cst.CSTNode, after: Sequence[cst.CSTNode]) -> str | None:
    """Say which comment a rewrite would drop, if it would."""
    lost = _comments(before) - sum(map(_comments, after), Counter[str]())
    return f"the rewrite would drop the comment {min(lost)!r}" if lost else None


def _line_of(statements: Sequence[cst.BaseSmallStatement]) -> list[cst.BaseStatement]:
    if not statements:
        return []
    *rest, last = statements
    last = last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
    return [cst.SimpleStatementLine([*rest, last])]


def _below(lines: Sequence[cst.EmptyLine], statement: cst.BaseStatement) -> cst.BaseStatement:
    own = cast("cst.SimpleStatementLine", statement).leading_lines
    return statement.with_changes(leading_lines=[*lines, *(x for x in own if x.comment)])


def _comments(node: cst.CSTNode) -> Counter[str]:
    found: Counter[str] = Counter()

    class CollectComments(cst.CSTVisitor):
        def visit_Comment(self, node: cst.Comment) -> None:
            found[node.value] += 1

    node.visit(CollectComments())
    return found
