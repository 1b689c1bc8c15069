"""Insert statements, functions or classes at a named place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import libcst as cst

from vpatch.codemods.base import Outcome, Place, SiteTransformer
from vpatch.codemods.fill import check_bound, fill
from vpatch.codemods.match import Match, same_code, statements_of
from vpatch.codemods.pattern import Pattern, PatternError

if TYPE_CHECKING:
    from collections.abc import Sequence

Position = Literal["before", "after", "start", "end"]
_Definition = (cst.FunctionDef, cst.ClassDef)


@dataclass(frozen=True)
class Insert:
    """Put `code` beside the statement that `anchor` matches, or at the start or end of its block.

    Code that already stands in that block counts as done; where the block has several anchors,
    each has the statements up to the next one to itself.
    """

    code: Sequence[cst.BaseStatement]
    position: Position
    anchor: Pattern
    place: Place

    def __post_init__(self) -> None:
        inner = self.position in {"start", "end"}
        if inner and not isinstance(self.anchor.node, cst.BaseCompoundStatement):
            raise PatternError(f"only a def, class or other block has a {self.position}")
        check_bound(self.code, self.anchor)

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (self.anchor.needles,)

    @property
    def sought(self) -> Pattern:
        return self.anchor

    def apply(self, module: cst.Module) -> Outcome:
        if self.position in {"start", "end"}:
            return _Inside(self).run(module)
        return _Beside(self).run(module)


class _Inserter(SiteTransformer):
    def __init__(self, spec: Insert) -> None:
        super().__init__(spec.place)
        self.spec = spec

    def inserted(
        self,
        statements: list[cst.CSTNode],
        index: int,
        match: Match,
        site: cst.CSTNode,
        *,
        around: Sequence[cst.CSTNode],
        nested: bool,
    ) -> list[cst.CSTNode] | None:
        """The block with the code at `index`, or None where nothing is to be done.

        `around` are the statements among which the code counts as being there already.
        """
        code = [fill(statement, match.bindings) for statement in self.spec.code]
        if _contains(around, code):
            self.add(site, todo=False, match=match)
            return None
        taken = {s.name.value for s in statements if isinstance(s, _Definition)}
        for statement in code:
            if isinstance(statement, _Definition) and statement.name.value in taken:
                name = statement.name.value
                problem = f"another definition of {name} is already there"
                self.add(site, todo=True, match=match, problem=problem)
                return None
        self.add(site, todo=True, match=match)
        spaced = _spaced(code, nested=nested, first=index == 0)
        return [*statements[:index], *spaced, *statements[index:]]


class _Beside(_Inserter):
    kinds = (cst.Module, cst.IndentedBlock)

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        block = cast("cst.Module | cst.IndentedBlock", updated)
        before = cast("cst.Module | cst.IndentedBlock", original)
        statements: list[cst.CSTNode] = list(block.body)
        anchors = [
            (index, match)
            for index, statement in enumerate(before.body)
            if (match := _anchored(self.spec.anchor, statement)) is not None
            and self.place.admits(self.scope, match)
        ]
        behind = self.spec.position == "after"
        # The last comes first, so that the earlier indices stay right.
        for number, (index, match) in reversed(list(enumerate(anchors))):
            start = anchors[number - (not behind)][0] if number else 0
            last = number + 1 == len(anchors)
            end = len(before.body) if last else anchors[number + behind][0]
            new = self.inserted(
                statements,
                index + behind,
                match,
                before.body[index],
                around=before.body[start:end],
                nested=bool(self.scope),
            )
            statements = new if new is not None else statements
        return updated if statements == list(block.body) else block.with_changes(body=statements)


class _Inside(_Inserter):
    def __init__(self, spec: Insert) -> None:
        self.kinds = (type(spec.anchor.node),)
        super().__init__(spec)

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        match = self.spec.anchor.match(updated)
        if match is None or not self.place.admits(self.scope, match):
            return updated
        block = cast("cst.BaseCompoundStatement", updated).body
        if not isinstance(block, cst.IndentedBlock):
            problem = "its body stands on the line of its header"
            self.add(original, todo=True, match=match, problem=problem)
            return updated
        statements = list(statements_of(block))
        at = len(statements) if self.spec.position == "end" else _behind_docstring(statements)
        nested = bool(self.scope) or isinstance(original, _Definition)
        new = self.inserted(statements, at, match, original, around=statements, nested=nested)
        return updated if new is None else updated.with_changes(body=block.with_changes(body=new))


def _anchored(anchor: Pattern, statement: cst.CSTNode) -> Match | None:
    if not isinstance(statement, cst.SimpleStatementLine):
        return anchor.match(statement)
    for small in statement.body:
        node = small.value if isinstance(small, cst.Expr) else small
        match = anchor.match(node)
        if match is not None:
            return match
    return None


def _contains(statements: Sequence[cst.CSTNode], code: Sequence[cst.CSTNode]) -> bool:
    return any(
        all(map(same_code, code, statements[start : start + len(code)]))
        for start in range(len(statements) - len(code) + 1)
    )


def _behind_docstring(statements: Sequence[cst.CSTNode]) -> int:
    match statements:
        case [cst.SimpleStatementLine(body=[cst.Expr(value=cst.BaseString())]), *_]:
            return 1
    return 0


def _spaced(
    code: Sequence[cst.BaseStatement], *, nested: bool, first: bool
) -> list[cst.BaseStatement]:
    """Blank lines around definitions as PEP 8 has them: two at the top level, one inside."""
    blank = [cst.EmptyLine(indent=False)] * (1 if nested else 2)
    spaced: list[cst.BaseStatement] = []
    for index, statement in enumerate(code):
        if isinstance(statement, _Definition) and not (first and index == 0):
            comments = [line for line in statement.leading_lines if line.comment]
            spaced.append(statement.with_changes(leading_lines=[*blank, *comments]))
        else:
            spaced.append(statement)
    return spaced
