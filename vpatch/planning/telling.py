"""What people are told of a decision: in short, or all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.planning.proven import proof_of
from vpatch.planning.shape import describe_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.planning.state import Decision

_SHOWN = 20


@dataclass(frozen=True)
class ToldText:
    """A text, which may have several lines, and how far to the right it belongs."""

    text: str
    at: int = 0
    warns: bool = False


def told_briefly(decision: Decision) -> Iterator[ToldText]:
    """The reason of a decision, and what a person must look at."""
    yield ToldText(decision.reason)
    if decision.state.stops:
        yield from findings_told(decision)
    if decision.disagreement:
        yield ToldText(decision.disagreement, warns=True)
    if decision.shape is not None and decision.may_be_wrong:
        yield ToldText(describe_shape(decision.shape), warns=True)


def told_in_full(decision: Decision, tree: str) -> Iterator[ToldText]:
    """All that a decision was read from, whether its code is known, and how that was proven."""
    yield ToldText(decision.reason)
    yield from findings_told(decision, 2)
    if decision.disagreement:
        yield ToldText(decision.disagreement, warns=True)
    shape, shapes = decision.shape, decision.patch.shapes
    if shape is None:
        return
    yield ToldText(describe_shape(shape), warns=decision.is_unsure)
    if shape.known and shapes is not None:
        yield ToldText(proof_of(shapes, tree, shape.known[-1]).sentence)


def findings_told(decision: Decision, at: int = 0) -> Iterator[ToldText]:
    """Where a patch does not fit, and why."""
    for finding in decision.findings[:_SHOWN]:
        where = f"{finding.where}: " if finding.where else ""
        yield ToldText(where + finding.what.replace("\n", "\n  "), at)
    if len(decision.findings) > _SHOWN:
        more = len(decision.findings) - _SHOWN
        yield ToldText(f"and {more} more: narrow the edit with within, where or files", at)
