"""`vpatch bump --continue`: a bump that waited for a person ends with its recipes settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bump.conflict.commits import Settling
from vpatch.commands.bump.conflict.record import open_bumps
from vpatch.commands.bump.next_project import StagedRecipe, staged
from vpatch.commands.bump.proof import BumpProof, ProofStep, prove, refuse_failed
from vpatch.commands.bump.report import state_said
from vpatch.commands.bump.repository import own_repository
from vpatch.commands.bump.verdict import is_decided
from vpatch.errors import UsageError, VpatchError
from vpatch.git.checkout import current_branch
from vpatch.workspace import selection
from vpatch.workspace.plans import planned
from vpatch.workspace.unsettled_recipe import edit_command

if TYPE_CHECKING:
    from vpatch.commands.bump.conflict.commits import WaitingRecipe
    from vpatch.commands.bump.repository import OwnRepository
    from vpatch.planning.state import Decision
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class SettledPatch:
    """A patch that was unsettled, and in words what it means for the release now."""

    patch: str
    state: str


@dataclass(frozen=True)
class SettledBump:
    """The branch, its last commit, the subjects of the new commits, and what was tested.

    `recipes` are settled, `patches` are those that were not.
    """

    branch: str
    commit: str
    subjects: tuple[str, ...]
    recipes: tuple[str, ...]
    patches: tuple[SettledPatch, ...]
    proof: tuple[ProofStep, ...]


def settle_bump(context: Context, *, proof: bool, engine: str | None) -> SettledBump:
    """Check that the patches fit, and commit them with the settled recipes and new locks.

    Raises:
        UsageError: no bump waits here, or something is not committed that the plan depends on.
        VpatchError: a patch does not fit yet, or a proof failed, or something cannot be written.
    """
    with own_repository(context) as own:
        settling, branch = Settling(context, own), current_branch(own.repo)
        recipes = settling.recipes
        if not recipes or branch is None:
            raise _none_open(context, own)
        texts = {one.name: StagedRecipe(one.text, one.path, one.path) for one in recipes}
        with staged(context, texts, {}) as changed:
            decided = {one.name: _decisions(changed, one) for one in recipes}
            waiting = dict.fromkeys(patch for one in recipes for patch in one.patches)
            states = {
                decision.patch.id: state_said(decision)
                for decisions in decided.values()
                for decision in decisions
            }
            patches = tuple(SettledPatch(p, states.get(p, "in no recipe")) for p in waiting)
            taken = {one.name: [d.patch for d in decided[one.name]] for one in recipes}
            lines = "".join(f"{one.patch}: {one.state}\n" for one in patches)
            commits = settling.commits(changed, taken, lines)
            steps: list[ProofStep] = []
            if proof:
                asked = BumpProof(
                    version=recipes[0].release,
                    patches=tuple(one for one in waiting if one in states),
                    gone=frozenset(),
                    recipes=tuple(decided),
                    unsettled=(),
                    engine=engine,
                )
                steps = prove(changed, asked)
                refuse_failed(steps)
        tip = settling.write(branch, commits)
    subjects = tuple(one.subject for one in commits)
    return SettledBump(branch, tip, subjects, tuple(decided), patches, tuple(steps))


def _none_open(context: Context, own: OwnRepository) -> UsageError:
    branches = [one.branch for one in open_bumps(own.repo)]
    return UsageError(
        "no branch is checked out with a recipe that is unsettled",
        where=str(context.project.folder),
        hint=f"git switch {branches[0]}"
        if branches
        else "a bump begins with vpatch bump --to VERSION --write",
        code="bump.none-open",
    )


def _decisions(context: Context, one: WaitingRecipe) -> tuple[Decision, ...]:
    """What the patches of a recipe mean for its release.

    Raises:
        VpatchError: one does not fit yet.
    """
    jobs = selection.resolve(selection.Request(recipe=one.name), context.library)
    job = next(each for each in jobs if each.spec.tree == "vllm")
    with context.tree(job.spec, job.expected_digest) as tree:
        decisions = planned(context, job.patches, tree, to_write=True).decisions
        context.answers.save()
    waiting = [
        each
        for each in decisions
        if each.state.stops or (each.patch.id in one.patches and not is_decided(each, tree.pin))
    ]
    if waiting:
        reasons = ((d.patch.id, d.state, d.reason.splitlines()[0]) for d in waiting)
        lines = "".join(f"\n  {patch} is {state}: {reason}" for patch, state, reason in reasons)
        first = waiting[0].patch.id
        raise VpatchError(
            f"the recipe {one.name} does not fit vLLM {one.release} yet:{lines}",
            where=str(one.path),
            hint=f"run {edit_command(first, one.release)} and vpatch refresh {first}, or take it "
            "out of the recipe; then vpatch bump --continue",
            code="bump.unsettled",
        )
    return decisions
