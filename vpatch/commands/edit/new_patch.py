"""What a work tree has more than the patch that is edited becomes a patch of its own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, Message, SourceChange
from vpatch.changes.stack import Stack
from vpatch.changes.time_limit import limited_time
from vpatch.commands.edit.checks import (
    changed_patch_error,
    files_at,
    refuse_markers,
    series_of_record,
)
from vpatch.commands.edit.record import read_record
from vpatch.commands.edit.results import unchanged
from vpatch.commands.edit.series import refuse_foreign
from vpatch.commands.edit.states import releases_asked
from vpatch.commands.edit.work_tree import ended
from vpatch.commands.importing.needed_names import patches_needed_by_name, same_calls
from vpatch.commands.importing.request import ImportRequest
from vpatch.commands.importing.run import ImportRun
from vpatch.commands.importing.scaffold import put_patch, refuse_wrong_id
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.commands.importing.sources.own_work import why_not_own
from vpatch.errors import UsageError, VpatchError
from vpatch.git import checkout as git
from vpatch.git.found import opened_checkout
from vpatch.planning.plan import plan
from vpatch.planning.relations import required
from vpatch.planning.state import State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.util.scratch import staging_folder
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.commands.edit.record import EditRecord
    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.commands.edit.series import Series
    from vpatch.commands.importing.request import ImportedPatch
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class SeparatePatch:
    """A new patch beside the one that was edited, which is `edited` and stays as it was.

    `recipe` is the recipe of the project that has the edited patch.
    """

    imported: ImportedPatch
    edited: RefreshedPatch
    recipe: Path | None

    @property
    def needs_a_person(self) -> bool:
        return self.imported.needs_a_person or self.edited.needs_a_person


def make_new_patch(
    context: Context, folder: Path, patch_id: str | None, new_id: str, releases: str | None
) -> SeparatePatch:
    """Make a new patch of what the work tree in `folder` has more than the patch makes.

    Raises:
        UsageError: the id cannot be used, or the work tree has nothing that a new patch can do.
        VpatchError: something cannot be read or written, or no edits are proven.
    """
    refuse_wrong_id(new_id)
    record = read_record(folder)
    if record is None or patch_id not in {None, record.patch}:
        raise UsageError(
            "--into makes a new patch in the edit of one patch, and this checkout is for another "
            "one or for a series",
            where=str(folder),
            hint=f"run vpatch edit {patch_id or 'ID'} first",
            code="edit.not-begun",
        )
    patch = context.library.patch(record.patch)
    refuse_foreign(context, patch)
    if record.carried is not None:
        raise UsageError(
            f"{patch.id} did not fit this release when its edit began, so what is its change is "
            "not clear",
            where=str(folder),
            hint=f"run vpatch refresh {patch.id}, then vpatch edit {patch.id} on this release "
            "again",
            code="edit.carried",
        )
    place = context.library.patches.get(new_id, patch.folder.parent / new_id)
    if place.exists():
        raise UsageError(
            f"there is a patch {new_id!r} already",
            where=str(place),
            hint="choose another id; if a killed run wrote this one, vpatch edit --abort "
            f"{patch.id} ends the edit",
            code="importing.exists",
        )
    if patch.codemods:
        context.require_trust([patch])
    with (
        context.tree(spec_of_pin(record.source, record.root), record.source.digest) as tree,
        limited_time(),
    ):
        series = series_of_record(context, record, tree, folder)
        return _NewPatchRun(context, folder, record, series, place, releases).run()


@dataclass(frozen=True)
class _NewPatchRun:
    """One run. `folder` is the checkout, and `place` that of the new patch."""

    context: Context
    folder: Path
    record: EditRecord
    series: Series
    place: Path
    releases: str | None

    def run(self) -> SeparatePatch:
        if self.series.decision.state is not State.NEEDED:
            raise changed_patch_error(self.series.patch)
        change = self._change()
        self._refuse_changed_patch(change)
        pin = self.series.tree.pin
        asked = tuple(releases_asked(self.context, self.releases, pin.tree, pin.version))
        # A change of a comment would be lost with the checkout, so every byte counts.
        request = ImportRequest(self.folder, kind="tree", exact=True)
        below = _NeededBelow(self.context, self.series, change)
        with staging_folder(self.place.parent, "refreshing") as staging:
            run = ImportRun(
                self.context, request, asked, self._tree, None, staging, needed_below=below
            )
            (imported,) = run.run([change])
            put_patch(staging / change.id, self.place)
        imported = replace(imported, folder=self.place)
        if reason := why_not_own(request, [change]):
            self.context.progress.note(
                f"not trusted, as {reason}: read every file there, then: "
                f"vpatch trust {shlex.quote(str(self.place))}"
            )
        else:
            self.context.trust_own(self.place)
        edited = unchanged(self.series.patch, self.series.tree, 0)
        return SeparatePatch(imported, ended(self.folder, change, edited), self._recipe())

    @property
    def _tree(self) -> ChangedTree:
        """The tree as the edited patch leaves it."""
        return _tree_with(self.series, [*self.series.earlier, self.series.patch])

    def _change(self) -> SourceChange:
        """What the work tree has otherwise than the patch makes it."""
        name = self.record.patch
        try:
            (change,) = from_checkout(self.folder, self.record.patched, Stack(self._tree))
        except UsageError as error:
            if error.code != "importing.nothing-left":
                raise
            reasons = error.what.split("; ")[1:]
            raise UsageError(
                "; ".join([f"nothing differs from what {name} makes", *reasons]),
                where=str(self.folder),
                hint="edit files below this folder, and run the command again",
                code="edit.nothing-new",
            ) from error
        refuse_markers(self.folder, change)
        notes = tuple(note for note in change.notes if note.startswith("git ignores"))
        return replace(change, id=self.place.name, notes=notes)

    def _refuse_changed_patch(self, change: SourceChange) -> None:
        """Refuse a patch that makes something else now than when its edit began."""
        with opened_checkout(self.folder) as repo:
            paths = {one.path for one in git.changed_paths(repo, self.record.below)}
        paths |= {*self.series.decision.changes, *(file.path for file in change.files)}
        stack = Stack(self._tree)
        begun = files_at(self.folder, self.record.patched)({p for p in paths if p[-1] != "/"})
        if any(stack.read(path) != content for path, content in begun.items()):
            raise changed_patch_error(self.series.patch)

    def _recipe(self) -> Path | None:
        library = self.context.library
        path = library.own_recipes.get(self.record.recipe or "")
        if path is None or self.record.patch not in library.recipe_selection(path).patches:
            return None
        return path


@dataclass(frozen=True)
class _NeededBelow:
    """Finds which patches up to the edited one a new patch needs."""

    context: Context
    series: Series
    change: SourceChange

    def __call__(self, new: Patch) -> list[str]:
        """The ids of those that it does not apply without, or that define what it imports.

        Raises:
            VpatchError: in the series, it does not make the work tree.
        """
        below = [*self.series.earlier, self.series.patch]
        wanted = self._files([*below, new])
        expected = {**_files_of(self.series, below), **{f.path: f.after for f in self.change.files}}
        if wanted is None or wanted != expected:
            raise VpatchError(
                f"{new.id} does not make the bytes of the work tree after {below[-1].id}",
                where=self.change.where,
                hint="import the change as a diff: git diff refs/vpatch/patched, vpatch import",
                code="edit.not-provable",
            )
        changes = {one.patch.id: one.changes for one in self.series.plan.decisions}
        own = {file.path for file in self.change.files}
        by_name = patches_needed_by_name(
            [*(_as_change(self.series, p) for p in below), self.change]
        )
        near = [p for p in below if p.id in by_name[new.id] or own & changes[p.id].keys()]
        needed = [
            patch
            for patch in near
            if patch.id in by_name[new.id] or not self._fits_without(patch, new, wanted)
        ]
        # Where each of several patches is enough, and none is too little, all are taken.
        requires = next(
            some
            for some in (needed, near, below)
            if self._files([*self._with_required(some), new]) is not None
        )
        indirect = {other.id for patch in requires for other in required(patch, below)}
        return [patch.id for patch in requires if patch.id not in indirect]

    def _with_required(self, patches: Sequence[Patch]) -> list[Patch]:
        below = [*self.series.earlier, self.series.patch]
        ids = {other.id for one in patches for other in (one, *required(one, below))}
        return [one for one in below if one.id in ids]

    def _fits_without(self, patch: Patch, new: Patch, wanted: dict[str, bytes]) -> bool:
        """Whether the new patch applies without one that, behind it, stops or gives the same."""
        below = [*self.series.earlier, self.series.patch]
        behind = [one for one in below if one is patch or patch in required(one, below)]
        before = [one for one in below if one not in behind]
        if self._files([*before, new]) is None:
            return False
        swapped = self._plan([*before, new, *behind])
        files = {path: change.after for path, change in overall_changes(swapped).items()}
        return any(one.state.stops for one in swapped.decisions) or same_calls(files, wanted)

    def _files(self, patches: Sequence[Patch]) -> dict[str, bytes] | None:
        """What patches make of the tree, the new one among them; None if it does not apply."""
        known = {one.patch.id: one.state for one in self.series.plan.decisions}
        plans = self._plan(patches)
        if any(one.state is not known.get(one.patch.id, State.NEEDED) for one in plans.decisions):
            return None
        return {path: change.after for path, change in overall_changes(plans).items()}

    def _plan(self, patches: Sequence[Patch]) -> Plan:
        return plan(patches, self.series.tree, answers=self.context.answers, shapes=False)


def _files_of(series: Series, patches: Sequence[Patch]) -> dict[str, bytes]:
    ids = {patch.id for patch in patches}
    files: dict[str, bytes] = {}
    for one in series.plan.taken:
        if one.patch.id in ids:
            files |= {path: change.after for path, change in one.changes.items()}
    return files


def _tree_with(series: Series, patches: Sequence[Patch]) -> ChangedTree:
    ids = frozenset(patch.id for patch in patches)
    return ChangedTree(series.tree, _files_of(series, patches), ids)


def _as_change(series: Series, patch: Patch) -> SourceChange:
    (decision,) = (one for one in series.plan.decisions if one.patch.id == patch.id)
    files = [FileChange(path, one.before, one.after) for path, one in decision.changes.items()]
    return SourceChange(patch.id, "", Message(), tuple(files))
