"""Patches and a tree make decisions. Nothing here writes, fetches or prints."""

from __future__ import annotations

import gc
import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.planning import kept_decisions
from vpatch.planning.answers import Answers
from vpatch.planning.around.code_index import CodeIndex
from vpatch.planning.around.surroundings import surroundings_of
from vpatch.planning.decider import Decider
from vpatch.planning.footprint import definitions_read
from vpatch.planning.relations import order, required, with_claim, with_relations
from vpatch.planning.shape import (
    SHAPED,
    in_recipes,
    is_recorded_for,
    shape_of,
    watched,
    with_surroundings,
)
from vpatch.planning.state import Decision, Plan, State
from vpatch.planning.view import View
from vpatch.source.memory import made_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.code_shape import CodeShape
    from vpatch.planning.state import FindingsFor
    from vpatch.source.tree import Pin, Tree

_log = logging.getLogger(__name__)
# What a patch may seem to be because an earlier one got at its code.
_DISPLACED = frozenset([State.CONFLICT, State.UPSTREAMED, State.ABSENT, State.NOT_DECLARED])


def plan(
    patches: Sequence[Patch],
    tree: Tree,
    *,
    findings_for: FindingsFor = "stopping",
    alone: Container[str] = (),
    answers: Answers | None = None,
    remember: bool = False,
    shapes: bool = True,
    surroundings: bool = False,
) -> Plan:
    """Decide on each patch, in order, each on the tree as its predecessors leave it.

    Args:
        patches: what to decide on.
        tree: the pristine tree.
        findings_for: which decisions have findings: `all`, those that are `stopping` an apply, or
            `none`. Findings have lines, which cost time. These are lines of the pristine files.
        alone: ids of patches that are decided as if there were only they and what they require.
        answers: what is known of the contents of files; None to find everything anew.
        remember: whether to take decisions from `answers`, and to keep them there. The tree's pin
            must tell its content.
        shapes: whether decisions have shapes, which cost most of the time.
        surroundings: whether each shape has the digests of the code around it, but for one of a
            release on record. Otherwise, only those have them that are compared with a record.
    """
    answers = Answers() if answers is None else answers
    series = _Series(
        patches, View(tree, answers=answers), findings_for, remember, shapes, surroundings
    )
    return series.plan(alone)


def plan_of_sources(patches: Sequence[Patch], tree: Tree, answers: Answers | None = None) -> Plan:
    """Plan what sources make, without shapes: another one may bring what their code imports."""
    answers = Answers() if answers is None else answers
    series = _Series(
        patches,
        View(tree, answers=answers),
        "stopping",
        remember=False,
        shapes=False,
        surroundings=False,
        imports=False,
    )
    return series.plan()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage in here: syntax trees are millions of objects, and have no cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass
class _Series:
    """Patches that are decided on one pristine tree; see `plan`."""

    patches: Sequence[Patch]
    pristine: View
    findings_for: FindingsFor
    remember: bool
    shapes: bool
    surroundings: bool
    # Whether what new code imports must be there.
    imports: bool = True

    @cached_property
    def _index(self) -> CodeIndex:
        return CodeIndex(self.pristine)

    @cached_property
    def _made_of(self) -> Pin | None:
        """The pristine tree that patches turned into the tree, if all are on record for it."""
        base, carried = made_of(self.pristine.tree), self.pristine.tree.carried
        recorded = {p.id for p in self.patches if base and is_recorded_for(p, base)}
        return base if carried <= recorded else None

    def plan(self, alone: Container[str] = ()) -> Plan:
        with _uncollected():
            decisions = self.decide(self.patches, alone).values()
        self.pristine.answers.save()
        pin = self.pristine.tree.pin
        return Plan(pin, tuple(with_claim(decision, pin) for decision in decisions))

    def decide(self, patches: Sequence[Patch], alone: Container[str] = ()) -> dict[str, Decision]:
        """The decision on each of some patches, each on the tree as those before it leave it."""
        view, carried = self.pristine, self.pristine.tree.carried
        decisions: dict[str, Decision] = {}
        for patch in order(patches):
            if patch.id in alone:
                own = self.decide([*required(patch, patches), patch])
                decisions[patch.id] = own[patch.id]
                continue
            decision, after = self._decide_patch(patch, view, carried, self.findings_for)
            met = {other: d for other, d in decisions.items() if other not in alone}
            decision = with_relations(decision, met, self.pristine.tree.pin)
            if decision.state in _DISPLACED and view is not self.pristine:
                decision = self._blame(decision, met.values())
            if decision.state is State.NEEDED:
                view = after
            if decision.state not in SHAPED:
                decision = replace(decision, shape=None)
            decisions[patch.id] = decision
        return decisions

    def _decide_patch(
        self, patch: Patch, view: View, carried: frozenset[str], findings_for: FindingsFor
    ) -> tuple[Decision, View]:
        """The decision on one patch, and the view after it where it is needed."""
        key = None
        if self.remember and self.shapes:
            key = kept_decisions.key_of(
                patch, view, carried, self.patches, surroundings=self.surroundings
            )
        if key is not None and findings_for != "all":
            known = kept_decisions.recall(key, patch, view)
            if known is not None and not (known.state.stops and findings_for == "stopping"):
                _log.info("%s is %s, as decided before", patch.id, known.state)
                return known, view.over({path: c.after for path, c in known.changes.items()})
        decider = Decider(patch, view, carried, findings_for, imports=self.imports)
        decision, after = decider.decide()
        if self.shapes and decision.state in SHAPED:
            decision = replace(decision, shape=self._shape(decision, decider))
        if key is not None:
            kept_decisions.keep(key, decision, view)
        return decision, after

    def _shape(self, decision: Decision, decider: Decider) -> CodeShape:
        """The shape that a decision was read from."""
        patch, pin = decision.patch, self.pristine.tree.pin
        names = watched(patch.shapes, pin.tree)
        definitions = definitions_read(
            decider.read, decision.changes, names, self.pristine, decider.tried
        )
        tree = self.pristine.tree
        shape = shape_of(decision, definitions, pin, self._made_of)
        is_compared = shape.release is not None or shape.compared_with is not None
        if not is_compared and (
            self.surroundings or shape.known or in_recipes(shape, patch.shapes, pin.tree)
        ):
            around = surroundings_of(decision, decider.read, definitions, self._index)
            others = (one for one in self.patches if one.id != patch.id)
            carried = [one for one in others if one.id in tree.carried]
            shape = with_surroundings(shape, around, decision, pin.tree, carried)
        return shape

    def _blame(self, decision: Decision, earlier: Iterable[Decision]) -> Decision:
        """Say so where a patch would fit the pristine tree and an earlier one is in its way.

        One that only finds its work done by an earlier patch is a conflict too: upstream has done
        none.
        """
        alone, _ = self._decide_patch(decision.patch, self.pristine, frozenset(), "none")
        if alone.state is not State.NEEDED:
            return decision
        applied = [other for other in earlier if other.changes]
        others = [
            other.patch.id
            for other in applied
            if not other.changes.keys().isdisjoint(alone.changes)
        ] or [other.patch.id for other in applied]
        reason = f"fits the pristine tree, but not after {', '.join(others)}: {decision.reason}"
        return replace(decision, state=State.CONFLICT, reason=reason)
