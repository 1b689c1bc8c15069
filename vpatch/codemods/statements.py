"""Rewrite statements that follow each other in a block, or delete them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.base import EditOutcome, Scope
from vpatch.codemods.match import same_code
from vpatch.codemods.moves import Moves, as_blocks, flat, key_of, moves_of
from vpatch.codemods.nodes import is_gap
from vpatch.codemods.pattern import (
    Pattern,
    PatternError,
    needles_of,
    parse_block,
    variables_of,
)
from vpatch.codemods.reduced import Reading
from vpatch.codemods.rewrite_blocks import BlockTransformer
from vpatch.codemods.successor import seen_in_scope, shows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.extent import Extents

_DEFINITION = (cst.FunctionDef, cst.ClassDef)


@dataclass(frozen=True)
class RewriteStatements:
    """Turn statements that follow each other, as `find` has them, into those of `replace`.

    Without `replace` they are deleted; a block that has no other statement gets a `pass`. With
    `comments`, the comments in, behind and right above them go too. Statements that both have are
    kept as they are, also where they get into or out of a block.
    """

    find: Pattern
    replace: Pattern | None
    place: Scope
    comments: bool = False

    def __post_init__(self) -> None:
        if self.replace is None:
            if any(map(is_gap, body_of(self.find))):
                raise PatternError(
                    f"... would delete statements that nobody named: {self.find}",
                    hint="delete the statements before and behind it by edits of their own",
                    code="codemods.wrong-edit",
                )
            return
        variables_of(self.replace.source, known=self.find)
        if same_code(self.find.node, self.replace.node):
            raise PatternError(
                f"the new code {self.replace} is the old code, so nothing would change",
                hint="write the code as it is to be",
                code="codemods.wrong-edit",
            )
        if self.moves.loses_a_gap:
            raise PatternError(
                f"the code that ... matches would be lost, or ... itself would be written: "
                f"{self.find} -> {self.replace}",
                hint="keep the statement, call, def or block of each ... in the new code, and "
                "their order; write (...) for Python's own Ellipsis",
                code="codemods.wrong-edit",
            )

    @cached_property
    def moves(self) -> Moves:
        return moves_of(body_of(self.find), body_of(self.replace))

    @cached_property
    def recognised(self) -> bool:
        """Whether new code shows that it was what `find` searches."""
        if self.replace is None or self.moves.only_takes_away:
            return False
        return shows(_alone(self.find), _alone(self.replace))

    @property
    def leaves_nothing(self) -> bool:
        """Whether no code tells where the edit was made."""
        return self.replace is None or (self.moves.only_takes_away and not self.replace.names)

    @property
    def forms(self) -> Sequence[Pattern]:
        """What a place may be: the old code, and the new."""
        if self.replace is None or self.leaves_nothing:
            return (self.find,)
        return (self.find, self.replace)

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return tuple(form.needles for form in self.forms)

    @property
    def reading(self) -> Reading | None:
        statements = [*body_of(self.find), *body_of(self.replace)]
        if any(isinstance(each, _DEFINITION) for each in statements):
            return None
        names = [form.names for form in self.forms]
        ifs = not any(isinstance(each, cst.If) for each in statements)
        return Reading(names, "module statement", "everywhere", frozenset(), ifs, scopes=True)

    @property
    def sought(self) -> Pattern:
        """The statement of `find` with the most names: the nearest code is looked for by it."""
        statements = [each for each in body_of(self.find) if not is_gap(each)]
        if len(statements) == 1:
            return _alone(self.find)
        found = [_of_one(self.find, each) for each in statements]
        return max(found, key=lambda one: len(one.names))

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        outcome = BlockTransformer(self).run(module, extents)
        if self.replace is None or self.moves.only_takes_away:
            return outcome
        if all(site.recognised for site in outcome.sites):
            return outcome
        within = self.place.within
        sites = seen_in_scope(outcome.sites, module, self.find, self.replace, within)
        return EditOutcome(outcome.module, sites)


def rewrite_statements(find: str, new: str, place: Scope) -> RewriteStatements:
    """Turn statements into others.

    Raises:
        PatternError: they are not Python, or code would be lost.
    """
    old = _with_blocks(parse_block(find))
    keys = {key_of(statement) for statement in flat(body_of(old))}
    made = parse_block(new, alone=True)
    body = as_blocks(body_of(made), keys)
    made = dataclasses.replace(made, node=_block(body))
    return RewriteStatements(old, made, place)


def delete_statements(find: str, place: Scope, *, comments: bool) -> RewriteStatements:
    """Delete statements.

    Raises:
        PatternError: they are not Python.
    """
    return RewriteStatements(_with_blocks(parse_block(find)), None, place, comments)


def _with_blocks(pattern: Pattern) -> Pattern:
    return dataclasses.replace(pattern, node=_block(as_blocks(body_of(pattern), None)))


def _block(statements: Sequence[cst.CSTNode]) -> cst.IndentedBlock:
    return cst.IndentedBlock(cast("list[cst.BaseStatement]", statements))


def body_of(pattern: Pattern | None) -> list[cst.CSTNode]:
    """The statements of a pattern of a block."""
    return [] if pattern is None else list(cast("cst.IndentedBlock", pattern.node).body)


def _alone(pattern: Pattern) -> Pattern:
    """The pattern of one statement, if that is all of it but for gaps."""
    statements = [each for each in body_of(pattern) if not is_gap(each)]
    if len(statements) != 1:
        return pattern
    return dataclasses.replace(pattern, node=_small(statements[0]))


def _of_one(pattern: Pattern, statement: cst.CSTNode) -> Pattern:
    names, strings = needles_of(statement)
    return dataclasses.replace(
        pattern,
        node=_small(statement),
        needles=frozenset(names | strings),
        names=frozenset(names),
    )


def _small(statement: cst.CSTNode) -> cst.CSTNode:
    """A statement without its line, and an expression without its statement."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=value)]):
            return value
        case cst.SimpleStatementLine(body=[small]):
            return small
    return statement
