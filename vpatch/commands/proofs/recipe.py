"""Behaviour tests on what a recipe makes of a release: all of its patches together.

Where two patches change one definition, nobody has tested the result by testing each of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from vpatch.commands.proofs.behaviour_records import (
    digest_of_test,
    in_recipe,
    record_in_recipe,
    refuse_unrecordable,
)
from vpatch.commands.proofs.releases import ReleaseCase, ReleaseTest, run_case
from vpatch.commands.proofs.usecase import engine_of_tests, references_of
from vpatch.errors import UsageError
from vpatch.harness.behaviour import ProofPlans
from vpatch.library.shapes import BehaviourInRecipe
from vpatch.planning.shape import cured_alike, digest_of_definitions
from vpatch.planning.state import Plan, State
from vpatch.source.spec import PypiSpec
from vpatch.util.plural import counted
from vpatch.workspace import selection
from vpatch.workspace.checkout import refuse_stopping
from vpatch.workspace.context import open_engine
from vpatch.workspace.plans import decide_each, patched_tree, planned

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from vpatch.declare.patch import Proof
    from vpatch.library.shapes import BehaviourOnRelease
    from vpatch.planning.state import Decision
    from vpatch.workspace.context import Context

_TREE = "vllm"
_CURED = (State.APPLIED, State.UPSTREAMED)


class DigestsInRecipe(TypedDict):
    """What tells the code of a recipe again; see `BehaviourInRecipe`."""

    code: str
    around: str


@dataclass(frozen=True)
class RecipeRun:
    """Which tests run on what a recipe makes: those of `patches`, or of all that it has.

    With `record`, each result for code that no patch makes alone goes to the patch's shapes.json,
    and what is recorded does not run, unless `again`.
    """

    recipe: str
    engine: str
    patches: tuple[str, ...] = ()
    record: bool = False
    again: bool = False


@dataclass(frozen=True)
class _PlannedRecipe:
    """What a recipe makes of a release, and what each of its patches means there."""

    recipe: str
    plan: Plan
    after: Plan
    release: str
    kind: str


def run_on_recipe(context: Context, asked: RecipeRun) -> Generator[ReleaseTest]:
    """Run the tests of a recipe's patches on all that it makes; yield each result.

    A test runs once, and must pass: by itself it was seen failing without its patch.

    Raises:
        UsageError: the recipe pins no release, or a patch cannot be recorded.
        VpatchError: the recipe cannot be applied, or an engine or a source is not there.
    """
    _, kind = engine_of_tests(context, asked.engine)
    with ExitStack() as stack:
        pinned = _plan_recipe(context, asked, kind, stack)
        chosen = [
            d for d in pinned.after.decisions if d.patch.id in asked.patches or not asked.patches
        ]
        _refuse_unknown(asked, chosen)
        if asked.record:
            refuse_unrecordable(decision.patch for decision in chosen)
        cases: list[tuple[Decision, ReleaseCase]] = []
        for decision in _to_ask(context, asked, chosen, pinned):
            for one in _cases(context, asked, decision, pinned, stack):
                if isinstance(one, ReleaseCase):
                    cases.append((decision, one))
                else:
                    yield one
        if not cases:
            return
        engine = stack.enter_context(open_engine(context, asked.engine, pinned.release))
        for number, (decision, case) in enumerate(cases, 1):
            one = run_case(context, case, engine, f" ({number} of {len(cases)})")
            if asked.record and not _is_alone(decision):
                entry = _entry(pinned.recipe, decision, one.found)
                record_in_recipe(context, case.patch, _TREE, case.release, entry)
            yield one


def _plan_recipe(context: Context, asked: RecipeRun, kind: str, stack: ExitStack) -> _PlannedRecipe:
    jobs = selection.resolve(selection.Request(recipe=asked.recipe), context.library)
    job = next(one for one in jobs if one.spec.tree == _TREE)
    # An engine runs what they insert, and the tests.
    context.require_trust(job.patches, asked.recipe)
    tree = stack.enter_context(context.tree(job.spec, job.expected_digest))
    if not isinstance(job.spec, PypiSpec) or tree.pin.version is None:
        raise UsageError(
            f"the recipe {asked.recipe} pins no release of vLLM",
            hint="use a recipe whose `vllm` is a release: engines have releases",
            code="harness.no-release",
        )
    plan = planned(context, job.patches, tree, to_write=True)
    refuse_stopping([plan], asked_for=False, strict=job.strict)
    after = decide_each(context, job.patches, patched_tree(tree, plan), surroundings=True)
    return _PlannedRecipe(job.recipe or asked.recipe, plan, after, tree.pin.version, kind)


def _refuse_unknown(asked: RecipeRun, chosen: list[Decision]) -> None:
    missing = {*asked.patches} - {decision.patch.id for decision in chosen}
    if missing:
        raise UsageError(
            f"the recipe {asked.recipe} does not have {min(missing)}",
            hint="name patches of the recipe, or none for all",
            code="library.not-in-recipe",
        )


def _to_ask(
    context: Context, asked: RecipeRun, chosen: Sequence[Decision], pinned: _PlannedRecipe
) -> Sequence[Decision]:
    """Record what is absent, and leave out what nothing else changes: its own record counts."""
    if not asked.record:
        return chosen
    for decision in chosen:
        if decision.state is State.ABSENT:
            _record_absent(context, decision, pinned)
    if asked.again:
        return chosen
    alone = [decision.patch.id for decision in chosen if _is_alone(decision)]
    if alone:
        context.progress.note(
            f"{counted(len(alone), 'patch')} left out, as no other patch changes their code: "
            f"{', '.join(alone)}"
        )
    return [decision for decision in chosen if decision.patch.id not in alone]


def _cases(
    context: Context, asked: RecipeRun, decision: Decision, pinned: _PlannedRecipe, stack: ExitStack
) -> Iterator[ReleaseCase | ReleaseTest]:
    patch = decision.patch
    for proof in patch.declaration.proof:
        if proof.engine != pinned.kind or decision.state not in _CURED:
            continue
        digest = digest_of_test(context, patch, proof, pinned.release)
        plans = ProofPlans(pinned.plan, pinned.plan, (), references_of(context, proof, stack))
        case = ReleaseCase(
            *(patch, proof, pinned.release, digest, _TREE, decision.state, "", plans),
            patched_only=True,
        )
        skipping = asked.record and not asked.again
        wanted = _entry(pinned.recipe, decision, case.found("holds", None).found)
        known = in_recipe(wanted, patch, pinned.release)
        if idle := _why_idle(proof, pinned):
            yield case.found("not asked", idle)
        elif skipping and known is not None:
            yield replace(case.found(known.outcome, known.reason), known=True)
        else:
            yield case


def _why_idle(proof: Proof, pinned: _PlannedRecipe) -> str | None:
    if proof.trees:
        return "it brings a plugin along, and recipes are tested without one"
    missing = {*proof.on_top_of} - {one.patch.id for one in pinned.plan.taken}
    if missing:
        return f"it needs {min(missing)}, which the recipe does not apply"
    return proof.refusal(pinned.release)


def _is_alone(decision: Decision) -> bool:
    """Whether the code is that of a release, or what the patch alone makes of one."""
    shapes, shape = decision.patch.shapes, decision.shape
    if shapes is None or shape is None:
        return False
    known = shapes.shapes.get(_TREE, ())
    return any(cured_alike(shape.definitions, known, by) for by in (State.NEEDED, State.UPSTREAMED))


def _entry(recipe: str, decision: Decision, result: BehaviourOnRelease) -> BehaviourInRecipe:
    facts = result.model_dump(exclude={"change_digest"})
    return BehaviourInRecipe(recipe=recipe, **digests_in_recipe(decision), **facts)


def digests_in_recipe(decision: Decision) -> DigestsInRecipe:
    """Return the digests of the code that a patch reads in what a recipe makes, and around it."""
    shape = decision.shape
    return {
        "code": digest_of_definitions(shape.definitions if shape else {}),
        "around": digest_of_definitions((shape.surroundings if shape else None) or {}),
    }


def _record_absent(context: Context, decision: Decision, pinned: _PlannedRecipe) -> None:
    """Record the code in which a patch is absent, as the record of releases does.

    Only where the release itself is on record as such: then it is other patches that changed it.
    """
    pristine = next(one for one in pinned.plan.decisions if one.patch.id == decision.patch.id)
    if decision.new_shape and pristine.state is State.ABSENT and not pristine.new_shape:
        entry = BehaviourInRecipe(
            recipe=pinned.recipe,
            outcome="not asked",
            state=decision.state,
            **digests_in_recipe(decision),
            patch_digest=decision.patch.digest,
        )
        record_in_recipe(context, decision.patch, _TREE, pinned.release, entry)
