"""What a patch means for releases, before and after a change of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.errors import BadValueError
from vpatch.planning.plan import plan
from vpatch.source.spec import PypiSpec
from vpatch.workspace.context import exact_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision, State
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
    new: Patch,
    name: str,
    versions: Sequence[str],
) -> list[StateChange]:
    """The state of a patch behind those that it requires, on other releases.

    Args:
        context: where trees come from.
        old: the patches that it requires, and then the patch as it was.
        new: the patch as it is.
        name: the tree.
        versions: its releases.
    """
    changes: list[StateChange] = []
    task = context.progress.start("Comparing releases", total=len(versions), unit="release")
    for version in versions:
        with context.tree(PypiSpec(name, version)) as tree:
            before = _last(context, old, tree)
            after = _last(context, [*old[:-1], new], tree)
        changes.append(StateChange(new.id, version, before.state, after.state, after.reason))
        task.advance(1)
    context.answers.save()
    task.done()
    return changes


def spoiled_on(
    context: Context, old: Sequence[Patch], new: Patch, name: str, versions: Sequence[str]
) -> list[str]:
    """The releases in which a patch had a state, and has another one or makes something else now.

    The arguments are those of `states_on`.
    """
    spoiled: list[str] = []
    task = context.progress.start("Comparing releases", total=len(versions), unit="release")
    for version in versions:
        with context.tree(PypiSpec(name, version)) as tree:
            before = _last(context, old, tree)
            if not before.state.stops:
                after = _last(context, [*old[:-1], new], tree)
                if (after.state, after.changes) != (before.state, before.changes):
                    spoiled.append(version)
        task.advance(1)
    context.answers.save()
    task.done()
    return spoiled


def _last(context: Context, patches: Sequence[Patch], tree: Tree) -> Decision:
    decisions = plan(
        patches, tree, findings_for="none", answers=context.answers, shapes=False
    ).decisions
    return next(one for one in decisions if one.patch.id == patches[-1].id)
