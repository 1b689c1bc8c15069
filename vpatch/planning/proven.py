"""How a known shape was proven: by behaviour in an engine, by an example, or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.planning.shape import digest_of_definitions, in_recipes
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.library.shapes import BehaviourOnRelease, KnownShape, Shapes
    from vpatch.planning.state import Decision


@dataclass(frozen=True)
class ShapeProof:
    """What proves a patch on a known shape. `sentence` has no full stop."""

    by: Literal["behaviour", "example", "not asked", "contradicted"]
    sentence: str


def proof_of(shapes: Shapes, tree: str, release: str) -> ShapeProof:
    """Return how the shape that a release has was proven, in any release that has the same.

    Raises:
        KeyError: the release has no known shape.
    """
    known = _known(shapes, tree, release)
    results = [
        (one, result)
        for one in known.releases
        for result in shapes.behaviour.get(tree, {}).get(one, ())
        if result.state == known.state and result.patch_digest == shapes.patch_digest
    ]
    against = [f"{one}: {r.reason}" for one, r in results if r.outcome == "contradicts"]
    if against:
        return ShapeProof("contradicted", f"behaviour contradicts it in {'; '.join(against)}")
    held = [(one, r) for one, r in results if r.outcome == "holds"]
    if held:
        engines = ", ".join(sorted({r.engine for _, r in held}))
        where = ", ".join(dict.fromkeys(one for one, _ in held))
        return ShapeProof("behaviour", f"by behaviour on {engines} in {where}")
    if known.examples:
        return ShapeProof("example", f"by the example {', '.join(known.examples)}")
    why = _why_not(known, [r for _, r in results])
    return ShapeProof("not asked", f"not asked: {why}{_elsewhere(shapes, tree, known)}")


def holds_in(decision: Decision, tree: str) -> bool:
    """Whether the patch's behaviour test holds in the very release that a tree is."""
    shape, shapes = decision.shape, decision.patch.shapes
    if shape is None or shapes is None or shape.release is None:
        return False
    results = shapes.behaviour.get(tree, {}).get(shape.release, ())
    asked = [one for one in results if one.outcome != "not asked"]
    return bool(asked) and all(
        (one.outcome, one.state, one.patch_digest)
        == ("holds", decision.state, decision.patch.digest)
        for one in asked
    )


def proven_in_recipe(decision: Decision, tree: str) -> str | None:
    """Say how a patch was proven on exactly this code, which a recipe makes; None if it was not.

    Other patches change this code too: neither a release nor the patch alone has it. A patch that
    is absent there is proven by the record alone, as in a release.
    """
    shape, shapes = decision.shape, decision.patch.shapes
    # Nothing is the same everywhere.
    if shape is None or shapes is None or not shape.definitions:
        return None
    around = digest_of_definitions(shape.surroundings or {})
    absent = decision.state is State.ABSENT
    results = [
        (release, one)
        for release, one in in_recipes(shape, shapes, tree)
        if (one.around, one.patch_digest) == (around, decision.patch.digest)
        and (one.state == State.ABSENT) == absent
    ]
    if any(one.outcome == "contradicts" for _, one in results):
        return None
    counting = [(r, one) for r, one in results if absent or one.outcome == "holds"]
    if not counting:
        return None
    release, one = counting[0]
    how = f"by behaviour on {one.engine}" if one.engine else "by the record"
    return f"{how} in {release} with the recipe {one.recipe}"


def _known(shapes: Shapes, tree: str, release: str) -> KnownShape:
    for one in shapes.shapes.get(tree, ()):
        if release in one.releases:
            return one
    raise KeyError(release)


def _why_not(known: KnownShape, results: Sequence[BehaviourOnRelease]) -> str:
    reasons = list(dict.fromkeys(r.reason for r in results if r.reason))
    if reasons:
        return "; ".join(reasons)
    if known.state == State.ABSENT:
        return "nothing can run where the patch is absent"
    return "no behaviour test is recorded in these releases"


def _elsewhere(shapes: Shapes, tree: str, known: KnownShape) -> str:
    """The results for a plugin that a test brings along, which say nothing of this tree."""
    held = [
        f"{other} beside vLLM {release}"
        for other, releases in shapes.behaviour.items()
        for release in known.releases
        for r in releases.get(release, ())
        if other != tree and r.outcome == "holds" and r.patch_digest == shapes.patch_digest
    ]
    return f"; a test holds for {', '.join(held)}" if held else ""
