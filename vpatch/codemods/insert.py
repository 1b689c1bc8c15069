"""Insert statements, functions or classes at a named place."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import libcst as cst

from vpatch.codemods.base import EditOutcome, PatternEdit, PatternTransformer
from vpatch.codemods.fill import check_bound, fill
from vpatch.codemods.flow import barrier
from vpatch.codemods.lines import below_blank_lines, spaced
from vpatch.codemods.match import Match, same_code
from vpatch.codemods.nodes import (
    DEFINITIONS,
    behind_docstring,
    code_of,
    is_string_statement,
    statements_of,
)
from vpatch.codemods.pattern import EditError
from vpatch.codemods.reduced import Reading, unit_of
from vpatch.codemods.spelling import brings
from vpatch.codemods.standing import are_same, one_by_one, part_there, repeat_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.extent import Extents

Position = Literal["before", "after", "start", "end"]


@dataclass(frozen=True)
class Insert(PatternEdit):
    """Put `code` beside the statement that `sought` matches, or at the start or end of its block.

    Code counts as done where it already is at just that place; the same code elsewhere does
    not. If only a part of it is there, that is a problem: nothing tells how to complete it. An
    anchor that shares its line with other statements is a problem: it has no place beside. So is a
    place that the program never reaches, as behind a `return`.

    An import as an anchor may be spelt otherwise in the module, as `import a.b` for
    `from a.b import c`.

    `below` is how many blank lines are to be between the code and the statement below it, where
    there are fewer.
    """

    code: Sequence[cst.BaseStatement]
    position: Position
    below: int = 0

    def __post_init__(self) -> None:
        inner = self.position in {"start", "end"}
        if inner and not isinstance(self.sought.node, cst.BaseCompoundStatement):
            raise EditError(
                f"only a def, class or other block has a {self.position}",
                hint="insert before or after the statement instead",
            )
        if not self.code:
            raise EditError(
                "there is no statement to insert",
                hint="write the code to insert",
            )
        check_bound(self.code, self.sought)

    @property
    def reading(self) -> Reading:
        names = {each.name.value for each in self.code if isinstance(each, DEFINITIONS)}
        others = [each for each in self.code if not isinstance(each, DEFINITIONS)]
        ifs = not any(isinstance(each, cst.If) for each in others)
        unit = unit_of(self.sought)
        return Reading([self.sought.names], unit, "everywhere", frozenset(names), ifs)

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        if self.position in {"start", "end"}:
            return _Inside(self).run(module, extents)
        return _Beside(self).run(module, extents)


class _Inserter(PatternTransformer[Insert]):
    def inserted(
        self,
        statements: list[cst.CSTNode],
        index: int,
        match: Match,
        site: cst.CSTNode,
        *,
        original: Sequence[cst.CSTNode],
        indices: Sequence[int],
        nested: bool,
    ) -> list[cst.CSTNode] | None:
        """The block with the code at `index`, or None where nothing is to be done.

        `original` is the block as it was; it agrees with `statements` up to `index`. `indices` are
        those of all places in it.
        """
        code = [fill(statement, match) for statement in self.spec.code]
        wanted, block = one_by_one(code), one_by_one(original)
        above = self.spec.position in {"before", "end"}
        size = len(wanted) if above else 0
        starts = [len(one_by_one(original[:each])) - size for each in [index, *indices]]
        there = starts[0] >= 0 and are_same(wanted, block[starts[0] :][: len(wanted)])
        earlier = block[: starts[0] + size]
        if there and above:
            earlier = block[: starts[0]]
        in_the_way = barrier(earlier)
        if in_the_way is not None:
            self.add(site, todo=True, match=match, problem=self._unreachable(in_the_way))
            return None
        if there:
            self.add(site, todo=False, match=match)
            return None
        taken = {s.name.value for s in statements if isinstance(s, DEFINITIONS)}
        again = [s.name.value for s in code if isinstance(s, DEFINITIONS) and s.name.value in taken]
        part = part_there(wanted, block, starts[0] + size, above=above)
        if again or part:
            problem = f"{part} of the {len(wanted)} statements to insert are there already"
            if again:
                problem = f"another definition of {again[0]} is already there"
            self.add(site, todo=True, match=match, problem=problem)
            return None
        self.add(site, todo=True, match=match, repeat=repeat_of(wanted, block, starts))
        code = spaced(code, nested=nested, first=index == 0)
        behind = statements[index:]
        if self.spec.position != "after":
            code, behind = below_blank_lines(code, behind)
        return [*statements[:index], *code, *_set_apart(behind, self.spec.below)]

    def _unreachable(self, leaving: cst.CSTNode) -> str:
        line = code_of(leaving).strip().partition("\n")[0]
        where = {"end": "at the end of this block", "after": "after this statement"}
        place = where.get(self.spec.position, "here")
        return (
            f"code {place} is never reached, because of `{line}`; insert it before that statement"
        )


class _Beside(_Inserter):
    kinds = (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if isinstance(original, cst.SimpleStatementSuite):
            self._refuse(original.body)
            return updated
        block = cast("cst.Module | cst.IndentedBlock", updated)
        before = cast("cst.Module | cst.IndentedBlock", original)
        statements: list[cst.CSTNode] = list(block.body)
        behind = self.spec.position == "after"
        anchors: list[tuple[int, cst.CSTNode, Match]] = []
        for index, statement in enumerate(before.body):
            if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
                self._refuse(statement.body)
            elif (match := self._match_anchor(statement)) is not None:
                below = 1 + self._is_documented(before.body[index : index + 2])
                anchors.append((index + below * behind, statement, match))
        # Inner blocks come first: where one has the anchor, no other import is needed.
        if not anchors and not self.sites and isinstance(block, cst.Module):
            others = (i for i, each in enumerate(before.body) if self._brings(each))
            first = next(others, None)
            if first is not None:
                match = Match(spellings=self.spellings)
                anchors = [(first + behind, before.body[first], match)]
        # The last comes first, so that the earlier indices stay right.
        for index, anchor, match in reversed(anchors):
            new = self.inserted(
                statements,
                index,
                match,
                anchor,
                original=before.body,
                indices=[each for each, _, _ in anchors],
                nested=bool(self.scope),
            )
            statements = new if new is not None else statements
        if statements == list(block.body):
            return updated
        footer = block.footer
        if statements[-1] is not block.body[-1]:
            footer = _with_blank(footer, self.spec.below) if footer else footer
        return block.with_changes(body=statements, footer=footer)

    def _is_documented(self, statements: Sequence[cst.CSTNode]) -> bool:
        """Whether a string below a variable, as of a field, says what it is.

        Code that begins with such a string goes right below the variable itself.
        """
        match statements:
            case [cst.SimpleStatementLine(body=[cst.Assign() | cst.AnnAssign()]), below]:
                return is_string_statement(below) and not is_string_statement(self.spec.code[0])
        return False

    def _match_anchor(self, statement: cst.CSTNode) -> Match | None:
        node = statement
        if isinstance(node, cst.SimpleStatementLine):
            node = node.body[0]
        match = self.spec.sought.match(
            node.value if isinstance(node, cst.Expr) else node, self.spellings
        )
        return match if match and self.place.admits(self.scope, match, node) else None

    def _brings(self, statement: cst.CSTNode) -> bool:
        """Whether a statement is an import that brings what the anchor imports, spelt otherwise."""
        anchor = self.spec.sought
        if self.place.within is not None or anchor.variables:
            return False
        match anchor.node, statement:
            case cst.ImportFrom(), cst.SimpleStatementLine(
                body=[cst.Import() | cst.ImportFrom() as node]
            ):
                is_new = any(same_code(statement, each) for each in self.spec.code)
                return not is_new and brings(node, anchor.node)
        return False

    def _refuse(self, line: Sequence[cst.BaseSmallStatement]) -> None:
        """Report the anchors in a line, or in the suite behind a header, outside of blocks."""
        for statement in line:
            match = self._match_anchor(statement)
            if match is not None:
                problem = "shares its line with other statements"
                self.add(statement, todo=True, match=match, problem=problem)


class _Inside(_Inserter):
    def edit_match(self, original: cst.CSTNode, updated: cst.CSTNode, match: Match) -> cst.CSTNode:
        block = cast("cst.BaseCompoundStatement", updated).body
        if not isinstance(block, cst.IndentedBlock):
            problem = "its body is on the line of its header"
            self.add(original, todo=True, match=match, problem=problem)
            return updated
        statements = list(statements_of(block))
        at = len(statements) if self.spec.position == "end" else behind_docstring(statements)
        nested = bool(self.scope) or isinstance(original, DEFINITIONS)
        new = self.inserted(
            statements, at, match, original, original=statements, indices=[], nested=nested
        )
        return updated if new is None else updated.with_changes(body=block.with_changes(body=new))


class InsertAtEnd(Insert):
    """Put `code` at the end of the module. `sought` is only the word for that."""

    def __post_init__(self) -> None:
        check_bound(self.code, self.sought)

    @property
    def needles(self) -> Sequence[frozenset[bytes]]:
        return (frozenset(),)

    @property
    def reading(self) -> Reading:
        names = {each.name.value for each in self.code if isinstance(each, DEFINITIONS)}
        return Reading([frozenset()], "module statement", "everywhere", frozenset(names), ifs=False)

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        return _AtEnd(self).run(module, extents)


class _AtEnd(_Inserter):
    kinds = (cst.Module,)

    def _passes_over(self, statement: cst.CSTNode) -> bool:
        del statement
        return True

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        body = cast("cst.Module", original).body
        match = Match(spellings=self.spellings)
        new = self.inserted(
            list(body), len(body), match, original, original=body, indices=[], nested=False
        )
        return updated if new is None else updated.with_changes(body=new)


def _set_apart(behind: list[cst.CSTNode], blank: int) -> list[cst.CSTNode]:
    """The statements below new code, with at least so many blank lines above the first."""
    match behind:
        case [cst.SimpleStatementLine() | cst.BaseCompoundStatement() as first, *rest]:
            return [
                first.with_changes(leading_lines=_with_blank(first.leading_lines, blank)),
                *rest,
            ]
    return behind


def _with_blank(lines: Sequence[cst.EmptyLine], blank: int) -> Sequence[cst.EmptyLine]:
    there = sum(1 for _ in itertools.takewhile(lambda line: line.comment is None, lines))
    return [*[cst.EmptyLine(indent=False)] * (blank - there), *lines]
