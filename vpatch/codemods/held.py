"""Locals that hold a value from one statement to the next."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.names import expression_names
from vpatch.codemods.nodes import all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Held = dict[str, cst.BaseExpression]


def held_values(function: cst.FunctionDef) -> Held:
    """Return the values of locals that a function sets once, and uses once, in the next statement.

    There may be more such locals in between, if they set no name of the value.
    """
    nodes = list(all_nodes(function))
    counts = Counter(node.value for node in nodes if isinstance(node, cst.Name))
    held: Held = {}
    for block in (node for node in nodes if isinstance(node, cst.IndentedBlock)):
        for name, value, user in _set_in(block.body):
            if counts[name] == 2 and name in expression_names(user):  # noqa: PLR2004 - set and used
                held[name] = value
    return held


def _set_in(
    statements: Sequence[cst.CSTNode],
) -> Iterator[tuple[str, cst.BaseExpression, cst.CSTNode]]:
    """The locals that statements set, each with its value and the statement that may use it."""
    waiting: Held = {}
    for statement in statements:
        yield from ((name, value, statement) for name, value in waiting.items())
        one = _held_by(statement)
        if one is None:
            waiting = {}
            continue
        name, value = one
        waiting = {n: v for n, v in waiting.items() if name not in expression_names(v)}
        waiting[name] = value


def _held_by(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value)]
        ):
            return name, value
    return None


def without_locals(function: cst.FunctionDef) -> cst.BaseSuite:
    """Return the body of a function with the values in place of the locals that hold them."""
    held = held_values(function)
    return cast("cst.BaseSuite", function.body.visit(_Inlining(held))) if held else function.body


class _Inlining(cst.CSTTransformer):
    def __init__(self, held: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self._held = held

    def leave_Name(self, _: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._held.get(updated_node.value, updated_node)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        one = _held_by(original_node)
        gone = one is not None and one[0] in self._held
        return cst.RemoveFromParent() if gone else updated_node
