"""What a work tree has more than the patches that it began with becomes a patch of its own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.stack import Stack
from vpatch.changes.time_limit import limited_time
from vpatch.commands.edit.absorb.record import read_series_record
from vpatch.commands.edit.absorb.replacement import finish
from vpatch.commands.edit.checks import refuse_markers, refuse_nothing_left
from vpatch.commands.edit.into.ground import ground_of_edit, ground_of_series
from vpatch.commands.edit.into.needed_below import NeededBelow
from vpatch.commands.edit.into.place import place_for
from vpatch.commands.edit.record import read_record
from vpatch.commands.edit.series import refuse_foreign
from vpatch.commands.edit.states import releases_asked
from vpatch.commands.edit.work_tree import removed_unless_kept
from vpatch.commands.importing.request import ImportRequest
from vpatch.commands.importing.run import ImportRun
from vpatch.commands.importing.scaffold import put_patch, refuse_wrong_id
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.commands.importing.sources.own_work import why_not_own
from vpatch.errors import UsageError
from vpatch.library.loading import load_patch
from vpatch.trust.decision import NOTHING
from vpatch.util.scratch import staging_folder
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.checkout.lockfile import LockedPin
    from vpatch.commands.edit.into.ground import Ground
    from vpatch.commands.edit.into.place import PlaceInSeries
    from vpatch.commands.edit.record import EditRecord
    from vpatch.commands.importing.request import ImportedPatch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class SeparatePatch:
    """A new patch beside those that were edited, which stay as they were.

    Attributes:
        imported: the new patch.
        edited: the id of the patch that was edited; None for a series.
        folder: that of the patch that was edited, or the checkout of the series.
        version: the release.
        place: where it goes among the others.
        checkout: the checkout, where it stays; `kept_for` says why.
    """

    imported: ImportedPatch
    edited: str | None
    folder: Path
    version: str
    place: PlaceInSeries
    checkout: Path | None
    kept_for: tuple[str, ...]

    @property
    def needs_a_person(self) -> bool:
        return self.imported.needs_a_person or self.place.stops or bool(self.kept_for)


def make_new_patch(
    context: Context, folder: Path, patch_id: str | None, new_id: str, releases: str | None
) -> SeparatePatch:
    """Make a new patch of what the work tree in `folder` has more than its patches make.

    Raises:
        UsageError: the id cannot be used, or the work tree has nothing that a new patch can do.
        VpatchError: something cannot be read or written, or no edits are proven.
    """
    refuse_wrong_id(new_id)
    source, root, ground_on = _opened(context, folder, patch_id)
    with context.tree(spec_of_pin(source, root), source.digest) as tree, limited_time():
        ground = ground_on(tree)
        parent = context.project.folder / "patches"
        if ground.edited is not None:
            parent = ground.edited.folder.parent
        place = context.library.patches.get(new_id, parent / new_id)
        if place.exists():
            again = f"vpatch edit --abort {ground.edited.id if ground.edited else ''}".rstrip()
            raise UsageError(
                f"there is a patch {new_id!r} already",
                where=str(place),
                hint=f"choose another id; if a killed run wrote this one, {again} ends the edit",
                code="importing.exists",
            )
        return _NewPatchRun(context, ground, place, releases).run()


def _opened(
    context: Context, folder: Path, patch_id: str | None
) -> tuple[LockedPin, Path, Callable[[Tree], Ground]]:
    """The release of an edit, the folder that it is seen from, and what the edit began with."""
    series = None if patch_id is not None else read_series_record(folder)
    if series is not None:
        record = finish(context, folder, series)
        return (
            record.source,
            record.root,
            lambda tree: ground_of_series(context, folder, record, tree),
        )
    edit = read_record(folder)
    if edit is None or patch_id not in {None, edit.patch}:
        raise UsageError(
            f"the checkout is not for the patch {patch_id!r}",
            where=str(folder),
            hint=f"run vpatch edit {patch_id} first, or name its folder with --checkout",
            code="edit.not-begun",
        )
    _refuse_carried(context, edit, folder)
    return edit.source, edit.root, lambda tree: ground_of_edit(context, folder, edit, tree)


def _refuse_carried(context: Context, record: EditRecord, folder: Path) -> None:
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


@dataclass(frozen=True)
class _NewPatchRun:
    """One run. `place` is that of the new patch."""

    context: Context
    ground: Ground
    place: Path
    releases: str | None

    def run(self) -> SeparatePatch:
        ground, context = self.ground, self.context
        context.require_trust([patch for patch in ground.below if patch.codemods])
        change = self._change()
        ground.refuse_changed([file.path for file in change.files])
        pin = ground.tree.pin
        asked = tuple(releases_asked(context, self.releases, pin.tree, pin.version))
        # A change of a comment would be lost with the checkout, so every byte counts.
        request = ImportRequest(ground.folder, kind="tree", exact=True)
        needed = NeededBelow(context, ground, change)
        self.place.parent.mkdir(exist_ok=True)
        with staging_folder(self.place.parent, "refreshing") as staging:
            run = ImportRun(
                context, request, asked, ground.patched, None, staging, needed_below=needed
            )
            (imported,) = run.run([change])
            order = place_for(context, ground, load_patch(staging / change.id, NOTHING))
            put_patch(staging / change.id, self.place)
        if reason := why_not_own(request, [change], ground.commit):
            context.progress.note(
                f"not trusted, as {reason}: read every file there, then: "
                f"vpatch trust {shlex.quote(str(self.place))}"
            )
        else:
            context.trust_own(self.place)
        kept_for = removed_unless_kept(ground.folder, change)
        return SeparatePatch(
            imported=replace(imported, folder=self.place),
            edited=None if ground.edited is None else ground.edited.id,
            folder=ground.folder if ground.edited is None else ground.edited.folder,
            version=pin.version or pin.label,
            place=order,
            checkout=ground.folder if kept_for else None,
            kept_for=kept_for,
        )

    def _change(self) -> SourceChange:
        """What the work tree has otherwise than the patches make it."""
        ground = self.ground
        if ground.edited is not None:
            refuse_nothing_left(ground.folder, ground.base)
        try:
            (change,) = from_checkout(ground.folder, ground.commit, Stack(ground.patched))
        except UsageError as error:
            if error.code != "importing.nothing-left":
                raise
            reasons = error.what.split("; ")[1:]
            raise UsageError(
                "; ".join([f"nothing differs from what {ground.beginning}", *reasons]),
                where=str(ground.folder),
                hint="edit files below this folder, and run the command again",
                code="edit.nothing-new",
            ) from error
        refuse_markers(ground.folder, change)
        notes = tuple(note for note in change.notes if note.startswith("git ignores"))
        return replace(change, id=self.place.name, notes=notes)
