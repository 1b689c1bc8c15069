"""`vpatch bump --continue`: a bump that waited for a person ends with its recipes settled."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bump.conflict.commits import Settling
from vpatch.commands.bump.conflict.record import ended_record, open_bumps
from vpatch.commands.bump.next_project import StagedRecipe, staged
from vpatch.commands.bump.proof import BumpProof, ProofStep, prove, refuse_failed
from vpatch.commands.bump.pull import open_pull, pull_place, shortened
from vpatch.commands.bump.report import state_said
from vpatch.commands.bump.repository import own_repository
from vpatch.commands.bump.verdict import is_decided
from vpatch.errors import UsageError, VpatchError
from vpatch.git.branch import set_refs
from vpatch.git.checkout import current_branch, messages
from vpatch.workspace import selection
from vpatch.workspace.plans import planned
from vpatch.workspace.unsettled_recipe import edit_command

if TYPE_CHECKING:
    from vpatch.commands.bump.conflict.commits import WaitingRecipe
    from vpatch.commands.bump.conflict.record import OpenBump
    from vpatch.commands.bump.pull import SentBump
    from vpatch.commands.bump.repository import OwnRepository
    from vpatch.commands.bump.usecase import BumpOptions
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

    `recipes` are settled, `patches` are those that were not. `sent` is the pull request, if any.
    """

    branch: str
    commit: str
    subjects: tuple[str, ...]
    recipes: tuple[str, ...]
    patches: tuple[SettledPatch, ...]
    proof: tuple[ProofStep, ...]
    sent: SentBump | None = None


def settle_bump(context: Context, options: BumpOptions) -> SettledBump:
    """Check that the patches fit, and commit them with the settled recipes and new locks.

    Of the options, `proof`, `engine`, `pull` and `repository` count.

    Raises:
        UsageError: no bump waits here, or something is not committed that the plan depends on; or
            options exclude each other.
        VpatchError: a patch does not fit yet, or a proof failed, or something cannot be written.
    """
    options.refuse_conflicts(context)
    with own_repository(context) as own, ExitStack() as stack:
        settling, branch = Settling(context, own), current_branch(own.repo)
        recipes = settling.recipes
        begun = next((one for one in open_bumps(own.repo) if one.branch == branch), None)
        # Of a run that was cut off, nothing but the pull request may be left.
        if branch is None or not (recipes or (options.pull and begun)):
            raise _none_open(context, own)
        place = None
        if options.pull:
            base = _base(begun, branch)
            place = stack.enter_context(pull_place(context, options.repository, branch, base))
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
            if options.proof and recipes:
                asked = BumpProof(
                    version=recipes[0].release,
                    patches=tuple(one for one in waiting if one in states),
                    gone=frozenset(),
                    recipes=tuple(decided),
                    unsettled=(),
                    engine=options.engine,
                )
                steps = prove(changed, asked)
                refuse_failed(steps)
        tip = settling.write(branch, commits, end=place is None)
        sent = None
        if place is not None and begun is not None:
            # The first message has the report.
            first, *others = messages(own.repo, begun.parent, tip)
            title, _, report = first.partition("\n")
            body = shortened("\n\n".join([report.strip(), *others]))
            sent = open_pull(place, tip, title, body)
            set_refs(own.repo, ended_record(own.repo, branch))
    subjects = tuple(one.subject for one in commits)
    return SettledBump(branch, tip, subjects, tuple(decided), patches, tuple(steps), sent)


def _base(begun: OpenBump | None, branch: str) -> str | None:
    """The branch that the bump began on; None where that was a commit.

    Raises:
        UsageError: another clone made the branch.
    """
    if begun is None:
        raise UsageError(
            f"it is not known where the bump on {branch} began: another clone made this branch",
            hint="leave out --pr, then push the branch and open the pull request yourself",
            code="bump.other-clone",
        )
    return begun.base


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
