"""How patches belong together, and what they claim of releases. Nothing here reads a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from vpatch.errors import UsageError
from vpatch.planning.state import Decision, State
from vpatch.source.tree import BUILT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.library.patch import Patch
    from vpatch.source.tree import Pin

_SATISFIED = frozenset([State.NEEDED, State.APPLIED, State.UPSTREAMED])


def order(patches: Sequence[Patch]) -> list[Patch]:
    """Put every patch behind those that it requires, and keep the given order otherwise.

    Raises:
        UsageError: patches require each other in a circle.
    """
    by_id = {patch.id: patch for patch in patches}
    placed: dict[str, Patch] = {}

    def place(patch: Patch, above: tuple[str, ...]) -> None:
        if patch.id in above:
            from vpatch.library.loading import where_named  # noqa: PLC0415 - takes 0.5 s to import

            raise UsageError(
                f"patches require each other: {' -> '.join((*above, patch.id))}",
                where=where_named(by_id[above[-1]], "requires", patch.id),
                hint="remove one of these from `requires`",
                code="planning.circular-requires",
            )
        for other in patch.relations.requires:
            if other in by_id and other not in placed:
                place(by_id[other], (*above, patch.id))
        placed[patch.id] = patch

    for patch in patches:
        if patch.id not in placed:
            place(patch, ())
    return list(placed.values())


def required(patch: Patch, patches: Sequence[Patch]) -> list[Patch]:
    """Return those of some patches that one requires, and that these require."""
    by_id = {other.id: other for other in patches}
    ids: set[str] = set()
    pending = list(patch.relations.requires)
    while pending:
        patch_id = pending.pop()
        if patch_id in by_id and patch_id not in ids:
            ids.add(patch_id)
            pending += by_id[patch_id].relations.requires
    return [other for other in patches if other.id in ids]


def with_relations(decision: Decision, earlier: Mapping[str, Decision], pin: Pin) -> Decision:
    """Return a decision as those on the patches before it make it; `pin` is that of the tree."""
    if decision.state not in {State.NEEDED, State.CONFLICT}:
        return decision
    relations = decision.patch.relations
    missing = [
        other
        for other in relations.requires
        if other not in earlier or earlier[other].state not in _SATISFIED
    ]
    if missing:
        state = earlier[missing[0]].state if missing[0] in earlier else "not among the patches"
        reason = f"requires {missing[0]}, which is {state}"
        is_open = state is State.NOT_DECLARED and claims(decision.patch, pin) is False
        return _stopped(decision, State.NOT_DECLARED if is_open else State.BLOCKED, reason)
    for other in earlier.values() if decision.state is State.NEEDED else ():
        excluded = other.patch.id in relations.conflicts or (
            decision.patch.id in other.patch.relations.conflicts
        )
        if excluded and other.state in {State.NEEDED, State.APPLIED}:
            reason = f"excludes {other.patch.id}, which is {other.state}; take one of the two"
            return replace(
                decision, state=State.CONFLICT, reason=reason, changes={}, files=(), places=0
            )
    return decision


def _stopped(decision: Decision, state: State, reason: str) -> Decision:
    """A decision that changes nothing."""
    return replace(decision, state=state, reason=reason, changes={}, files=(), places=0)


def claims(patch: Patch, pin: Pin) -> bool | None:
    """Whether a patch declares that it is needed in a tree; None where nothing tells."""
    return claims_version(patch, pin.tree, pin.version)


def claims_version(patch: Patch, tree: str, version: str | None) -> bool | None:
    """The same for a version of a tree."""
    claim = patch.relations.needed_in.get(tree)
    if claim is None or version is None:
        return None
    return SpecifierSet(claim).contains(version, prereleases=True)


def with_claim(decision: Decision, pin: Pin) -> Decision:
    """Return a decision with what its patch declares in `needed-in`, and how that contradicts it.

    A build with the cure contradicts nothing: who built it may have put that in.
    """
    claimed = claims(decision.patch, pin)
    contradicts = None if claimed is None else _disagreement(decision, pin, claimed=claimed)
    return replace(decision, claimed=claimed, disagreement=contradicts)


def _disagreement(decision: Decision, pin: Pin, *, claimed: bool) -> str | None:
    if decision.state is State.UNTRUSTED:
        return None
    if claimed and decision.state is State.UPSTREAMED and pin.kind in BUILT:
        return None
    claim = decision.patch.relations.needed_in[pin.tree]
    needed = decision.state in {State.NEEDED, State.APPLIED, State.BLOCKED, State.CONFLICT}
    if claimed == needed:
        return None
    if decision.needs_sources:
        return f"declared that it is needed in {pin.label} ({claim!r}); only the sources tell"
    verb = "is needed" if claimed else "is not needed"
    return f"declared that it {verb} in {pin.label} ({claim!r}), but is {decision.state}"
