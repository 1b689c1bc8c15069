"""Whether code that an edit inserts is in a block already, in part or at another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.base import Repeat
from vpatch.codemods.match import same_code

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


def one_by_one(statements: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """Statements as if each had a line of its own."""
    apart: list[cst.CSTNode] = []
    for statement in statements:
        if isinstance(statement, cst.SimpleStatementLine):
            apart += [cst.SimpleStatementLine([small]) for small in statement.body]
        else:
            apart.append(statement)
    return apart


def are_same(one: Sequence[cst.CSTNode], other: Sequence[cst.CSTNode]) -> bool:
    return len(one) == len(other) and all(map(same_code, one, other))


def part_there(
    wanted: Sequence[cst.CSTNode], block: Sequence[cst.CSTNode], at: int, *, above: bool
) -> int:
    """How many of the wanted statements are at a place of a block that does not have all of them.

    With `above`, the last ones right above the place, else the first ones right below it.
    """
    for number in range(len(wanted) - 1, 0, -1):
        if above and at >= number and are_same(wanted[-number:], block[at - number : at]):
            return number
        if not above and are_same(wanted[:number], block[at : at + number]):
            return number
    return 0


def repeat_of(
    wanted: Sequence[cst.CSTNode], block: Sequence[cst.CSTNode], starts: Container[int]
) -> Repeat | None:
    """Whether the wanted statements are in a block, but for the places in `starts`."""
    for start in range(len(block) - len(wanted) + 1):
        if start not in starts and are_same(wanted, block[start : start + len(wanted)]):
            return Repeat.USUAL if all(map(_is_expression, wanted)) else Repeat.UNUSUAL
    return None


def _is_expression(statement: cst.CSTNode) -> bool:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr()]):
            return True
    return False
