"""What a new release of vLLM means for the patches of recipes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.bump.changes import ReleaseSide
from vpatch.commands.bump.comparison_cache import compared
from vpatch.commands.bump.history import CommitsFrom, opened_history
from vpatch.commands.bump.propose import with_proposal
from vpatch.commands.bump.report import BumpReport, RecipeBump
from vpatch.commands.bump.upstream_commits import with_commits
from vpatch.commands.bump.verdict import judge
from vpatch.errors import UsageError
from vpatch.library.catalog import installed
from vpatch.planning.view import View
from vpatch.workspace import selection
from vpatch.workspace.plans import planned
from vpatch.workspace.selection import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


def bump(
    context: Context, recipes: Sequence[str], to: str, commits: CommitsFrom | None = None
) -> BumpReport:
    """Say what the release `to` means for each patch of some recipes.

    Without names, these are all recipes of the project. `commits` says who tells which upstream
    commits changed the code of the patches.

    Raises:
        UsageError: a recipe is not there, it is wrong, or pins a later release and was named.
        VpatchError: a source, or upstream's commits, cannot be read.
    """
    found: list[RecipeBump] = []
    idle: list[str] = []
    for name in recipes or _own_recipes(context):
        jobs = selection.resolve(Request(recipe=name), context.library, whole_library=True)
        target = selection.resolve(
            Request(recipe=name, vllm=to), context.library, whole_library=True
        )[0]
        with (
            context.tree(jobs[0].spec, jobs[0].expected_digest) as old,
            context.tree(target.spec) as new,
            ExitStack() as stack,
        ):
            reason = _nothing_to_do(name, old.pin, new.pin, asked=bool(recipes))
            if reason is not None:
                idle.append(reason)
                continue
            others = tuple(job.spec.tree for job in jobs[1:])
            # It refuses a clone without the releases before anything takes time.
            history = opened_history(context, commits or CommitsFrom(), old.pin, new.pin, stack)
            patches = tuple(_patches(context, jobs[0], target, old, new))
            if history is not None:
                patches = with_commits(patches, history)
            asked = None if history is None else history.said
            found.append(RecipeBump(name, old.pin, new.pin, patches, others, asked))
    return BumpReport(tuple(found), tuple(idle))


def _own_recipes(context: Context) -> list[str]:
    """The project's own recipes: those of the installed library are not its to change.

    Raises:
        UsageError: it has none.
    """
    project, library = context.project.folder.resolve(), installed("recipes").resolve()
    found = [
        name
        for name, path in sorted(context.library.recipes.items())
        if library.is_relative_to(project) or not path.resolve().is_relative_to(library)
    ]
    if not found:
        raise UsageError(
            "the project has no recipes of its own",
            hint="name a recipe; vpatch list shows them all",
            code="bump.no-recipes",
        )
    return found


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
    was = _decided(context, before, old)
    now = _decided(context, after, new)
    answers = context.answers
    views = View(old, answers=answers), View(new, answers=answers)
    decisions = {decision.patch.id: decision for decision in was.decisions}
    for decision in now.decisions:
        earlier = decisions[decision.patch.id]
        sides = ReleaseSide(earlier, views[0]), ReleaseSide(decision, views[1])
        one = judge(earlier, decision, (old.pin, new.pin), compared(*sides))
        yield with_proposal(context, one, old, new)
    answers.save()
    task.done()


def _decided(context: Context, job: Selection, tree: CachedTree) -> Plan:
    return planned(context, job.patches, tree, to_write=True)
