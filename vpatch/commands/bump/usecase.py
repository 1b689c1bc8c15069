"""What a new release of vLLM means for the patches of recipes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.bump.changes import ReleaseSide
from vpatch.commands.bump.comparison_cache import compared
from vpatch.commands.bump.propose import with_proposal
from vpatch.commands.bump.report import BumpReport, RecipeBump, release
from vpatch.commands.bump.report_file import check_report_file, write_report
from vpatch.commands.bump.upstream_commits import with_commits
from vpatch.commands.bump.verdict import judge, with_next
from vpatch.errors import UnusedOptionError, UsageError
from vpatch.library.catalog import installed
from vpatch.planning.view import View
from vpatch.workspace import selection
from vpatch.workspace.plans import planned
from vpatch.workspace.selection import Request
from vpatch.workspace.upstream_history import opened_history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.commands.bump.pull import SentBump
    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.commands.bump.write import WrittenBump
    from vpatch.commands.compat.step import PluginStep
    from vpatch.source.entry import CachedTree
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection
    from vpatch.workspace.upstream_history import CommitsFrom


@dataclass(frozen=True)
class BumpOptions:
    """How a bump is written.

    Attributes:
        branch: the name of the new branch; by default `vpatch/bump-VERSION`.
        prune: whether the folders of patches that nothing needs go, too.
        proof: whether what changes is tested first.
        engine: the vLLM to test with: `cpu`, `cuda` or a Python. None takes one of the cache.
        pull: whether the branch is pushed to origin, and a pull request opened there.
        repository: that of the pull request, as OWNER/NAME; by default that of origin.
    """

    branch: str | None = None
    prune: bool = False
    proof: bool = True
    engine: str | None = None
    pull: bool = False
    repository: str | None = None

    def refuse_conflicts(self, context: Context) -> None:
        """Refuse options that exclude each other, or have no effect together.

        Raises:
            UsageError: there are some.
        """
        if self.repository and not self.pull:
            raise UnusedOptionError(
                "--repository would have no effect without --pr", hint="add --pr"
            )
        if self.engine and not self.proof:
            raise UnusedOptionError(
                "--engine would have no effect with --no-proof", hint="leave one of the two out"
            )
        if self.pull and context.offline:
            raise UnusedOptionError(
                "--pr asks GitHub, and --offline forbids it", hint="leave one of the two out"
            )


@dataclass(frozen=True)
class BumpResult:
    """What a release means, the branch that was written, and the pull request, if any."""

    report: BumpReport
    written: WrittenBump | None = None
    sent: SentBump | None = None


def bump(
    context: Context,
    recipes: Sequence[str],
    to: str,
    commits: CommitsFrom,
    *,
    output: Path | None = None,
    write: BumpOptions | None = None,
) -> BumpResult:
    """Say what the release `to` means for each patch of some recipes, and write the change.

    Args:
        context: the project, its library and the cache.
        recipes: names; without any, these are all recipes of the project.
        to: the new vLLM.
        commits: who tells which upstream commits changed the code of the patches.
        output: a file that gets the report as well.
        write: how the change becomes a branch of the project; None writes none.

    Raises:
        UsageError: a recipe is not there, it is wrong, or pins a later release and was named; or
            options exclude each other; or the change cannot be written.
        VpatchError: something cannot be read or written, or a proof failed.
    """
    if write is not None:
        write.refuse_conflicts(context)
    if output is not None:
        check_report_file(output)
    commits.refuse(context)
    if write is not None:
        # It needs git.
        from vpatch.commands.bump.repository import own_repository  # noqa: PLC0415

        with own_repository(context):
            pass  # It refuses a project in which nobody can commit before anything takes time.
    report = _report(context, recipes, to, commits)
    if output is not None:
        write_report(report, output)
        context.progress.note(f"the report is in {output}")
    if write is None or not report.recipes:
        return BumpResult(report)
    # These need git, and the harness of tests.
    from vpatch.commands.bump.pull import body_of, open_pull, pull_place  # noqa: PLC0415
    from vpatch.commands.bump.write import write_bump  # noqa: PLC0415
    from vpatch.git.origin import current_branch  # noqa: PLC0415

    branch = write.branch or f"vpatch/bump-{release(report.recipes[0].new)}"
    with ExitStack() as stack:
        place = None
        if write.pull:
            base = current_branch(context.project.folder)
            place = stack.enter_context(pull_place(context, write.repository, branch, base))
        written = write_bump(
            context, report, branch, prune=write.prune, proof=write.proof, engine=write.engine
        )
        # Nobody can use what such a pull request would bring.
        sent = None
        if place is not None and not written.unsettled:
            sent = open_pull(place, written.commit, written.subjects[0], body_of(report))
    return BumpResult(report, written, sent)


def _report(context: Context, recipes: Sequence[str], to: str, commits: CommitsFrom) -> BumpReport:
    bumps: list[RecipeBump] = []
    idle: list[str] = []
    for name in recipes or _own_recipes(context):
        jobs = selection.resolve(
            Request(recipe=name), context.library, whole_library=True, unsettled=True
        )
        target = selection.resolve(
            Request(recipe=name, vllm=to), context.library, whole_library=True, unsettled=True
        )[0]
        with (
            context.tree(jobs[0].spec, jobs[0].expected_digest) as old,
            context.tree(target.spec) as new,
            ExitStack() as stack,
        ):
            reason = _nothing_to_do(name, old.pin, new.pin, asked=bool(recipes))
            if reason is not None:
                recipe, _ = context.library.read_recipe(context.library.recipe(name))
                more = ", and is unsettled: vpatch bump --continue settles it"
                idle.append(reason + (more if recipe.unsettled else ""))
                continue
            others = tuple(job.spec.tree for job in jobs[1:])
            # It refuses a clone without the releases before anything takes time.
            history = opened_history(context, commits, old.pin, new.pin, stack)
            patches = tuple(_patches(context, jobs[0], target, old, new))
            if history is not None:
                patches = with_commits(patches, history)
            asked = None if history is None else history.description
            plugins = tuple(_plugins(context, name, old, new))
            bumps.append(RecipeBump(name, old.pin, new.pin, patches, others, asked, plugins))
    return BumpReport(tuple(bumps), tuple(idle))


def _plugins(context: Context, name: str, old: CachedTree, new: CachedTree) -> Iterator[PluginStep]:
    recipe, _ = context.library.read_recipe(context.library.recipe(name))
    if recipe.plugins:
        # Most recipes name none, and it takes long to import.
        from vpatch.commands.compat.step import plugin_step  # noqa: PLC0415

        yield from (plugin_step(context, one, old, new) for one in recipe.plugins)


def _own_recipes(context: Context) -> list[str]:
    """The project's own recipes: those of the installed library are not its to change.

    Raises:
        UsageError: it has none.
    """
    project, library = context.project.folder.resolve(), installed("recipes").resolve()
    names = [
        name
        for name, path in sorted(context.library.recipes.items())
        if library.is_relative_to(project) or not path.resolve().is_relative_to(library)
    ]
    if not names:
        raise UsageError(
            "the project has no recipes of its own",
            hint="name a recipe; vpatch list shows them all",
            code="bump.no-recipes",
        )
    return names


def _nothing_to_do(name: str, old: Pin, new: Pin, *, asked: bool) -> str | None:
    """Why a recipe is not to be bumped; None if it is."""
    if old.digest == new.digest:
        return f"{name} pins {old.label} already"
    if old.version and new.version and Version(old.version) > Version(new.version):
        if asked:
            raise UsageError(
                f"the recipe {name} pins {old.label}, which is later than {new.version}",
                hint=f"name a release after {old.version} with --to",
                code="bump.backwards",
            )
        return f"{name} pins {old.label}, which is later"
    return None


def _patches(
    context: Context, before: Selection, after: Selection, old: CachedTree, new: CachedTree
) -> Iterator[PatchBump]:
    task = context.progress.start(f"Comparing {old.pin.label} with {new.pin.label}")
    was = planned(context, before.patches, old, to_write=True, surroundings=True)
    now = planned(context, after.patches, new, to_write=True, surroundings=True)
    answers = context.answers
    views = View(old, answers=answers), View(new, answers=answers)
    decisions = {decision.patch.id: decision for decision in was.decisions}
    for decision in now.decisions:
        earlier = decisions[decision.patch.id]
        sides = ReleaseSide(earlier, views[0]), ReleaseSide(decision, views[1])
        one = judge(earlier, decision, (old.pin, new.pin), compared(*sides))
        yield with_next(with_proposal(context, one, old, new), new.pin)
    answers.save()
    task.done()
