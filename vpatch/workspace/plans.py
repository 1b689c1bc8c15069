"""Plans with what the context keeps of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.library.catalog import root_of
from vpatch.planning.plan_cache import cached_plan, keep_plan, kept_plan
from vpatch.planning.state import overall_changes
from vpatch.source.memory import ChangedTree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.planning.state import Decision, FindingsFor, Plan
    from vpatch.source.tree import Pin, Tree
    from vpatch.workspace.context import Context


def planned(
    context: Context,
    patches: Sequence[Patch],
    tree: Tree,
    *,
    to_write: bool,
    findings_for: FindingsFor = "stopping",
    alone: Collection[str] = (),
    surroundings: bool = False,
    before: Callable[[], None] = lambda: None,
) -> Plan:
    """Return the plan for some patches on a tree, from the cache where it is there.

    See `vpatch.planning.plan_cache.cached_plan`.

    Raises:
        VpatchError: decisions.json says something else than what was just decided.
    """
    decided_anew = False

    def answers() -> Answers:
        nonlocal decided_anew
        decided_anew = True
        before()
        return context.answers

    plan = cached_plan(
        context.plans,
        patches,
        tree,
        to_write=to_write,
        findings_for=findings_for,
        alone=alone,
        surroundings=surroundings,
        # What is in the cache needs no SQLite.
        answers=answers,
    )
    if decided_anew and not tree.carried:
        _compare_with_record(context, plan, patches, alone)
    return plan


def known_plan(
    context: Context,
    patches: Sequence[Patch],
    pin: Pin,
    *,
    findings_for: FindingsFor,
    alone: Collection[str] = (),
) -> Plan | None:
    """Return the plan for a release, without changes, if nothing need be read for it.

    None where only its tree can tell. For `findings_for` and `alone` see `vpatch.planning.plan`.
    """
    # What has fewer findings will do, if nothing stops.
    for wanted in dict.fromkeys((findings_for, "none", "stopping")):
        plan = kept_plan(context.plans, patches, pin, findings_for=wanted, alone=alone)
        if plan is not None and (wanted == findings_for or _suffices(plan, findings_for)):
            return plan
    plan = _recorded_plan(context, patches, pin, alone)
    if plan is None or not _suffices(plan, findings_for):
        return None
    keep_plan(context.plans, plan, patches, findings_for=findings_for, alone=alone)
    return plan


def _recorded_plan(
    context: Context, patches: Sequence[Patch], pin: Pin, alone: Collection[str]
) -> Plan | None:
    if not context.uses_records:
        return None
    # What is in the cache needs no record.
    from vpatch.planning.recorded_plan import recorded_plan  # noqa: PLC0415

    recorded = context.recorded_decisions
    tables = [(root, trees[pin.tree]) for root, trees in recorded if pin.tree in trees]
    return recorded_plan(patches, pin, tables, alone=alone)


def _compare_with_record(
    context: Context, plan: Plan, patches: Sequence[Patch], alone: Collection[str]
) -> None:
    """Stop where a decision is not as it is recorded: `status` would say something else.

    Only what counts for this code, these patches and this archive is compared.
    """
    recorded = _recorded_plan(context, patches, plan.pin, alone)
    if recorded is None:
        return
    for is_so, was_so in zip(plan.decisions, recorded.decisions, strict=True):
        now, then = (_meaning(decision) for decision in (is_so, was_so))
        if now != then:
            from vpatch.library.decisions import DECISIONS  # noqa: PLC0415 - needs pydantic

            name = is_so.patch.id
            raise VpatchError(
                f"decisions.json says of {name} in {plan.pin.label}: {then}; decided anew, it is "
                f"{now}",
                where=str(root_of(is_so.patch.folder) / DECISIONS),
                hint=f"`vpatch test {name} --record` writes it anew. If that does not help, it is "
                "a fault of vpatch: please report it.",
                code="planning.not-as-recorded",
            )


def _meaning(decision: Decision) -> str:
    """What a decision says, as far as it is recorded."""
    variant = f" by its variant {decision.variant}" if decision.variant else ""
    files = ", ".join(decision.files) or "no file"
    return f"{decision.state}{variant}, {decision.places} places, {files}: {decision.reason}"


def _suffices(plan: Plan, findings_for: FindingsFor) -> bool:
    """Whether a plan without findings has all that are asked for."""
    stops = any(decision.state.stops for decision in plan.decisions)
    return findings_for == "none" or (findings_for == "stopping" and not stops)


def decide_each(
    context: Context, patches: Sequence[Patch], tree: Tree, *, surroundings: bool = False
) -> Plan:
    """Decide on each patch for itself; the pin of the tree must tell its content.

    What a patch would change says where the defect is. For `surroundings` see
    `vpatch.planning.plan.plan`.
    """
    alone = [patch.id for patch in patches]
    return planned(context, patches, tree, to_write=True, alone=alone, surroundings=surroundings)


def patched_tree(tree: Tree, plan: Plan) -> ChangedTree:
    """The tree that a plan makes of another one; it carries what the plan takes."""
    files = {path: change.after for path, change in overall_changes(plan).items()}
    carried = tree.carried | {one.patch.id for one in plan.taken}
    return ChangedTree(tree, files, carried, made_of=None if tree.carried else tree.pin)
