"""What a patch means for releases, before and after a change of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.importing.proof import failure_of_second, without_requires
from vpatch.errors import BadValueError
from vpatch.planning.plan import plan
from vpatch.planning.state import State, overall_changes
from vpatch.source.spec import PypiSpec
from vpatch.workspace.context import exact_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision, Plan
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class StateChange:
    """What a patch means for a release, or in a series, before and after."""

    patch: str
    version: str
    before: State
    after: State
    reason: str

    @property
    def differs(self) -> bool:
        return self.before is not self.after

    @property
    def is_worse(self) -> bool:
        """Whether the patch fitted before, and stops an apply now."""
        return self.after.stops and not self.before.stops


def states_between(old: Plan, new: Plan) -> tuple[StateChange, ...]:
    """The states of the patches that both plans of one tree have."""
    version = new.pin.version or new.pin.label
    before = {one.patch.id: one.state for one in old.decisions}
    return tuple(
        StateChange(one.patch.id, version, before[one.patch.id], one.state, one.reason)
        for one in new.decisions
        if one.patch.id in before
    )


def releases_asked(context: Context, asked: str | None, tree: str, own: str | None) -> list[str]:
    """The releases to compare beside that of the checkout: by default those in the cache."""
    if asked == "none":
        return []
    if asked is None:
        versions = list(context.cache.versions(tree))
    elif tree != "vllm":
        raise BadValueError(
            "--releases names releases of vLLM, and the patch is edited on another tree",
            hint="leave it out, or give none",
        )
    elif asked == "all":
        versions = context.releases()
    else:
        versions = [exact_release(context, version) for version in asked.split(",")]
    return sorted({version for version in versions if version != own}, key=Version)


def states_on(
    context: Context,
    old: Sequence[Patch],
    new: Sequence[Patch],
    name: str,
    versions: Sequence[str],
) -> list[StateChange]:
    """The state of a patch behind those that it requires, on other releases.

    Args:
        context: where trees come from.
        old: the patches that it requires, and then the patch, as they were.
        new: the same as they are.
        name: the tree.
        versions: its releases.
    """
    changes: list[StateChange] = []
    task = context.progress.start("Comparing releases", total=len(versions), unit="release")
    for version in versions:
        with context.tree(PypiSpec(name, version)) as tree:
            before = _last(context, old, tree)
            after = _last(context, new, tree)
        changes.append(StateChange(new[-1].id, version, before.state, after.state, after.reason))
        task.advance(1)
    context.answers.save()
    task.done()
    return changes


@dataclass(frozen=True)
class SpoiledReleases:
    """Releases in which a patch had a state, and has another one or makes something else now.

    `unstable` says in which one it would not stay as it is when it is applied again.
    """

    versions: tuple[str, ...]
    unstable: str | None


def spoiled_on(
    context: Context, old: Sequence[Patch], new: Patch, name: str, versions: Sequence[str]
) -> SpoiledReleases:
    """The releases that a changed patch spoils, up to the first in which it is unstable.

    The arguments are those of `states_on`, with the patch alone as it is.
    """
    spoiled: list[str] = []
    unstable = None
    task = context.progress.start("Comparing releases", total=len(versions), unit="release")
    for version in versions:
        with context.tree(PypiSpec(name, version)) as tree:
            before = _last(context, old, tree)
            if not before.state.stops:
                together = _plan(context, [*old[:-1], new], tree)
                after = next(one for one in together.decisions if one.patch.id == new.id)
                if (after.state, after.changes) != (before.state, before.changes):
                    spoiled.append(version)
                elif after.state is State.NEEDED:
                    files = {p: one.after for p, one in overall_changes(together).items()}
                    alone = without_requires(new)
                    unstable = failure_of_second(alone, tree, files, context.answers)
        task.advance(1)
        if unstable is not None:
            unstable = f"on {version}, {unstable}"
            break
    context.answers.save()
    task.done()
    return SpoiledReleases(tuple(spoiled), unstable)


def _last(context: Context, patches: Sequence[Patch], tree: Tree) -> Decision:
    decisions = _plan(context, patches, tree).decisions
    return next(one for one in decisions if one.patch.id == patches[-1].id)


def _plan(context: Context, patches: Sequence[Patch], tree: Tree) -> Plan:
    return plan(patches, tree, findings_for="none", answers=context.answers, shapes=False)
