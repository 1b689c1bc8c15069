"""Rewrite what a pattern matches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.base import EditOutcome, SiteTransformer
from vpatch.codemods.comments import lost_comment
from vpatch.codemods.correspond import gaps_correspond
from vpatch.codemods.fill import CannotRewrite
from vpatch.codemods.match import same_code
from vpatch.codemods.nodes import kinds_of
from vpatch.codemods.pattern import (
    EditError,
    Pattern,
    SeveralStatementsError,
    parse_pattern,
    variables_of,
)
from vpatch.codemods.reduced import Reading, unit_of
from vpatch.codemods.rewriting import rewrite
from vpatch.codemods.statements import RewriteStatements, rewrite_statements
from vpatch.codemods.successor import seen_in_scope, shows

if TYPE_CHECKING:
    from vpatch.codemods.extent import Extents
    from vpatch.codemods.scope import Scope


@dataclass(frozen=True)
class Rewrite:
    """Turn what `find` matches into `replace`.

    Code that matches `replace` is done if it shows that it was what `find` searches; see `shows`.
    Nothing is looked for inside it then: the new code may contain the old, as in `f($x)` ->
    `g(f($x))`. Code that `find` matches as well is not done, unless `find` matches all new code.
    """

    find: Pattern
    replace: Pattern
    place: Scope

    def __post_init__(self) -> None:
        variables_of(self.replace.source, known=self.find)
        if self.replace.match(self.find.node) is not None and not self.only_takes_away:
            raise EditError(
                f"the new code {self.replace} also matches the old code, so nothing would change",
                hint="make the new code more specific, or write this edit as a codemod.py",
            )
        if not gaps_correspond(self.find.node, self.replace.node):
            raise EditError(
                f"the code that ... matches would be lost, or ... itself would be written: "
                f"{self.find} -> {self.replace}",
                hint="keep the call, def or block of each ... in the new code, and their order; "
                "write (...) for Python's own Ellipsis",
            )

    @property
    def only_takes_away(self) -> bool:
        """Whether the new code is the old one without some of it, as a decorator.

        Then all code that the new code finds, and `find` does not, has it no more. There would be
        too much of that if the new code had no name.
        """
        return bool(
            self.replace.names
            and self.replace.match(self.find.node) is not None
            and self.find.match(self.replace.node) is None
        )

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (self.find.needles, self.replace.needles)

    @property
    def reading(self) -> Reading:
        unit = unit_of(self.find, self.replace)
        return Reading([self.find.names, self.replace.names], unit, scopes=True)

    @property
    def sought(self) -> Pattern:
        return self.find

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        outcome = _RewriteTransformer(self).run(module, extents)
        if self.only_takes_away:
            return outcome
        return seen_in_scope(outcome, module, self.find, self.replace, self.place.within)


def rewrite_of(find: str, new: str, place: Scope) -> Rewrite | RewriteStatements:
    """An edit that turns code into other code.

    Where statements become more or fewer, or get into other blocks, it looks at whole statements.

    Raises:
        PatternError: the two are not Python, or do not fit together.
    """
    with suppress(SeveralStatementsError):
        old, template = parse_pattern(find), parse_pattern(new)
        if not _needs_statements(old, template):
            return Rewrite(old, template, place)
    return rewrite_statements(find, new, place)


def _needs_statements(old: Pattern, template: Pattern) -> bool:
    kinds = [isinstance(each.node, cst.BaseExpression) for each in (old, template)]
    if any(kinds):
        return not all(kinds)
    if _is_compound(old) != _is_compound(template):
        return True
    return not gaps_correspond(old.node, template.node)


def _is_compound(pattern: Pattern) -> bool:
    return isinstance(pattern.node, cst.BaseCompoundStatement)


class _RewriteTransformer(SiteTransformer):
    def __init__(self, spec: Rewrite) -> None:
        self.kinds = (*kinds_of(spec.find.node), *kinds_of(spec.replace.node))
        super().__init__(spec.place, (spec.find.names, spec.replace.names))
        self.spec = spec
        self.always_found = spec.find.match(spec.replace.node) is not None
        self.recognised = not spec.only_takes_away and shows(spec.find, spec.replace)
        self.finished: set[int] = set()
        self.parents: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(node)
        return super().on_visit(node)

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        self.parents.pop()
        return super().on_leave(original_node, updated_node)

    def enter(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, self.kinds):
            return True
        match = self.spec.replace.match(node, self.spellings)
        if match is None or not self.place.admits(self.scope, match, node):
            return True
        if not self.always_found and self.spec.find.match(node, self.spellings) is not None:
            return True
        self.add(node, todo=False, match=match, recognised=self.recognised)
        if self.recognised:
            self.finished.add(id(node))
        return not self.recognised

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if id(original) in self.finished:
            return updated
        match = self.spec.find.match(updated, self.spellings)
        if match is None or not self.place.admits(self.scope, match, updated):
            return updated
        problem: str | None = None
        new = updated
        try:
            new = rewrite(
                self.spec.find.node, self.spec.replace.node, updated, match, self.parents[-1]
            )
        except CannotRewrite as error:
            problem = str(error)
        problem = lost_comment(updated, [new]) or problem
        if problem is None and same_code(new, updated):
            self.add(original, todo=False, match=match)
            return updated
        self.add(original, todo=True, match=match, problem=problem)
        return updated if problem else new
