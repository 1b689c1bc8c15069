"""What the work tree of an edit began with, of one patch or of a series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.edit.absorb.checkout import patches_of_record
from vpatch.commands.edit.checks import changed_patch_error, files_at, series_of_record
from vpatch.errors import UsageError
from vpatch.git import checkout as git
from vpatch.git.found import opened_checkout
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.memory import ChangedTree

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vpatch.commands.edit.absorb.record import SeriesRecord
    from vpatch.commands.edit.record import EditRecord
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class Ground:
    """What a work tree began with, which a new patch goes on top of.

    Attributes:
        folder: the checkout.
        tree: the release without patches.
        base: its commit.
        commit: the commit with the patches.
        below: the patches in it, in order.
        later: those of the series that are not in it.
        plan: what all of them mean.
        edited: the last one below, if it is edited by itself.
        recipe: the name of the recipe with the series.
    """

    folder: Path
    tree: Tree
    base: str
    commit: str
    below: tuple[Patch, ...]
    later: tuple[Patch, ...]
    plan: Plan
    edited: Patch | None
    recipe: str | None

    def files_of(self, patches: Collection[Patch]) -> dict[str, bytes]:
        """What patches make of the release."""
        ids = {patch.id for patch in patches}
        taken = [one for one in self.plan.taken if one.patch.id in ids]
        return {path: one.after for each in taken for path, one in each.changes.items()}

    @property
    def patched(self) -> ChangedTree:
        """The release as the patches below leave it."""
        ids = frozenset(patch.id for patch in self.below)
        return ChangedTree(self.tree, self.files_of(self.below), ids)

    @property
    def beginning(self) -> str:
        """What the work tree began with, for people."""
        return "the patches make" if self.edited is None else f"{self.edited.id} makes"

    def refuse_changed(self, paths: Collection[str]) -> None:
        """Refuse a work tree whose patches make something else now than when the edit began.

        Args:
            paths: the files that the work tree changes.

        Raises:
            UsageError: they do.
        """
        with opened_checkout(self.folder) as repo:
            touched = {one.path for one in git.changed_paths(repo, self.base)}
        patched = self.files_of(self.below)
        asked = {path for path in {*touched, *patched, *paths} if path[-1] != "/"}
        there = set(self.tree.paths())
        for path, content in files_at(self.folder, self.commit)(asked).items():
            pristine = self.tree.read(path) if path in there else None
            if patched.get(path, pristine) != content:
                raise self.changed_error

    @property
    def changed_error(self) -> UsageError:
        if self.edited is not None:
            return changed_patch_error(self.edited)
        return UsageError(
            "the patches make something else now than when the edit began",
            where=str(self.folder),
            hint="save your change (git diff), run vpatch edit --abort, and begin again",
            code="edit.series-changed",
        )


def ground_of_edit(context: Context, folder: Path, record: EditRecord, tree: Tree) -> Ground:
    """What the edit of one patch in `folder` began with.

    Raises:
        UsageError: a patch changed since.
    """
    series = series_of_record(context, record, tree, folder)
    if series.decision.state is not State.NEEDED:
        raise changed_patch_error(series.patch)
    return Ground(
        folder,
        tree,
        base=record.below,
        commit=record.patched,
        below=(*series.earlier, series.patch),
        later=series.later,
        plan=series.plan,
        edited=series.patch,
        recipe=record.recipe,
    )


def ground_of_series(context: Context, folder: Path, record: SeriesRecord, tree: Tree) -> Ground:
    """What the edit of a series in `folder` began with.

    Raises:
        UsageError: a patch changed since.
    """
    patches = patches_of_record(context, folder, record)
    decided = plan(patches, tree, answers=context.answers, shapes=False)
    return Ground(
        folder,
        tree,
        base=record.base,
        commit=record.tip,
        below=tuple(patches),
        later=(),
        plan=decided,
        edited=None,
        recipe=record.recipe,
    )
