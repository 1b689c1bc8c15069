"""The series that a patch belongs to, and the tree below the patch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.commits import commits_of
from vpatch.errors import UsageError
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.planning.relations import order
from vpatch.planning.state import Plan, State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.workspace.selection import Request, Selection, resolve, with_required

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.git.checkout import NewCommit
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class Series:
    """A patch between those that come before and after it, planned on a tree."""

    tree: Tree
    patch: Patch
    earlier: tuple[Patch, ...]
    later: tuple[Patch, ...]
    plan: Plan

    @property
    def patches(self) -> list[Patch]:
        return [*self.earlier, self.patch, *self.later]

    @property
    def decision(self) -> Decision:
        """What the patch means on top of those before it."""
        return next(one for one in self.plan.decisions if one.patch.id == self.patch.id)

    @property
    def below(self) -> Plan:
        """The plan of those before the patch."""
        ids = {one.id for one in self.earlier}
        return Plan(self.plan.pin, tuple(one for one in self.plan.decisions if one.patch.id in ids))

    @property
    def tree_below(self) -> ChangedTree:
        """The tree as the earlier patches leave it."""
        files = {path: change.after for path, change in overall_changes(self.below).items()}
        return ChangedTree(self.tree, files, frozenset(one.id for one in self.earlier))

    @property
    def commits_below(self) -> list[NewCommit]:
        return commits_of(self.below)


def selected(context: Context, patch_id: str, vllm: str | None, recipe: str | None) -> Selection:
    """The series that has a patch: that of the recipe or version, or it and what it requires.

    Raises:
        UsageError: there is no such patch in the project, or it is not for this tree.
    """
    patch = context.library.patch(patch_id)
    refuse_foreign(context, patch)
    if vllm is None and recipe is None:
        recipe = _only_recipe(context, patch_id)
    (first, *_) = resolve(Request(vllm=vllm, recipe=recipe), context.library, unsettled=True)
    if patch_id in {one.id for one in first.patches} or recipe is not None:
        return first
    (alone, *_) = resolve(Request(vllm=vllm, patches=(patch_id,)), context.library)
    return alone


def refuse_foreign(context: Context, patch: Patch) -> None:
    """Refuse a patch that is not in the project."""
    if not patch.folder.resolve().is_relative_to(context.project.folder.resolve()):
        raise UsageError(
            f"the patch {patch.id!r} is not one of the project",
            where=str(patch.folder / DECLARATION),
            hint="copy its folder to patches/ of the project",
            code="edit.foreign-patch",
        )


def _only_recipe(context: Context, patch_id: str) -> str | None:
    """The one recipe of the project that takes a patch; None where it is not clear."""
    library = context.library
    names = [
        name
        for name, path in library.own_recipes.items()
        if patch_id in library.recipe_selection(path).patches
    ]
    return names[0] if len(names) == 1 else None


def planned_series(context: Context, patches: Sequence[Patch], patch_id: str, tree: Tree) -> Series:
    """Plan a series on a tree.

    Raises:
        UsageError: the patch is not in the series.
    """
    ordered = order(patches)
    ids = [one.id for one in ordered]
    if patch_id not in ids:
        raise UsageError(
            f"the recipe does not take the patch {patch_id!r}",
            hint="name another recipe with --recipe, or a release with --vllm",
            code="edit.not-in-series",
        )
    at = ids.index(patch_id)
    decided = plan(ordered, tree, answers=context.answers, shapes=False)
    return Series(tree, ordered[at], tuple(ordered[:at]), tuple(ordered[at + 1 :]), decided)


def required_series(context: Context, patch: Patch) -> list[Patch]:
    """A patch behind those that it requires."""
    others = with_required([patch.id], context.library)
    return [*(one for one in others if one.id != patch.id), patch]


__all__ = ["Series", "State", "planned_series", "required_series", "selected"]
