"""Statements that follow each other, and those that take their place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.match import same_code
from vpatch.codemods.moves import Moves, moves_of
from vpatch.codemods.nodes import is_gap
from vpatch.codemods.pattern import EditError, Pattern, variables_of
from vpatch.codemods.successor import shows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.scope import Scope


@dataclass(frozen=True)
class StatementChange:
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
                raise EditError(
                    f"... would delete statements that nobody named: {self.find}",
                    hint="delete the statements before and behind it by edits of their own",
                )
            return
        variables_of(self.replace.source, known=self.find)
        if same_code(self.find.node, self.replace.node):
            raise EditError(
                f"the new code {self.replace} is the old code, so nothing would change",
                hint="write the code as it is to be",
            )
        if self.moves.loses_a_gap:
            raise EditError(
                f"the code that ... matches would be lost, or ... itself would be written: "
                f"{self.find} -> {self.replace}",
                hint="keep the statement, call, def or block of each ... in the new code, and "
                "their order; write (...) for Python's own Ellipsis",
            )

    @cached_property
    def moves(self) -> Moves:
        return moves_of(body_of(self.find), body_of(self.replace))

    @cached_property
    def recognised(self) -> bool:
        """Whether new code shows that it was what `find` searches."""
        if self.replace is None or self.moves.only_takes_away:
            return False
        return shows(alone(self.find), alone(self.replace))

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


def body_of(pattern: Pattern | None) -> list[cst.CSTNode]:
    """The statements of a pattern of a block."""
    return [] if pattern is None else list(cast("cst.IndentedBlock", pattern.node).body)


def alone(pattern: Pattern) -> Pattern:
    """The pattern of one statement, if that is all of it but for gaps."""
    statements = [each for each in body_of(pattern) if not is_gap(each)]
    if len(statements) != 1:
        return pattern
    return dataclasses.replace(pattern, node=as_small(statements[0]))


def as_small(statement: cst.CSTNode) -> cst.CSTNode:
    """A statement without its line, and an expression without its statement."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=value)]):
            return value
        case cst.SimpleStatementLine(body=[small]):
            return small
    return statement
