"""What the work tree of an edit says becomes the patch, once that is proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.changes.time_limit import limited_time
from vpatch.commands.edit.checks import change_of, files_at, series_of_record
from vpatch.commands.edit.proven_patch import PatchSearch
from vpatch.commands.edit.record import find_edit, read_record
from vpatch.commands.edit.replacement import PatchReplacement
from vpatch.commands.edit.series import refuse_foreign
from vpatch.commands.edit.work_tree import ended
from vpatch.errors import UsageError
from vpatch.util.scratch import staging_folder
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.edit.record import EditRecord
    from vpatch.commands.edit.refresh_result import RefreshedPatch, RefreshRequest
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


def refresh_patch(context: Context, request: RefreshRequest) -> RefreshedPatch:
    """Make a patch say what the work tree of its edit says, and end the edit.

    Raises:
        UsageError: no edit was begun, or the work tree has what no patch can do.
        VpatchError: something cannot be read or written, or no edits are proven.
    """
    folder = find_edit(context, request.patch_id, request.checkout)
    record = read_record(folder)
    if record is None or request.patch_id not in {None, record.patch}:
        raise UsageError(
            f"the checkout is not for the patch {request.patch_id!r}",
            where=str(folder),
            hint=f"run vpatch edit {request.patch_id} first, or name its folder with --checkout",
            code="edit.not-begun",
        )
    patch = context.library.patch(record.patch)
    refuse_foreign(context, patch)
    with (
        context.tree(spec_of_pin(record.source, record.root), record.source.digest) as tree,
        limited_time(),
    ):
        return _Refresh(context, request, folder, record, patch, tree).run()


@dataclass(frozen=True)
class _Refresh:
    """One run. `folder` is the checkout."""

    context: Context
    request: RefreshRequest
    folder: Path
    record: EditRecord
    patch: Patch
    tree: Tree

    def run(self) -> RefreshedPatch:
        if self.patch.codemods:
            self.context.require_trust([self.patch])
        series = series_of_record(self.context, self.record, self.tree, self.folder)
        change = change_of(self.folder, self.record, series)
        replacement = PatchReplacement(self.context, self.patch, series, self.request.releases)
        with staging_folder(self.patch.folder.parent, "refreshing") as staging:
            search = PatchSearch(
                self.context,
                self.folder,
                files_at(self.folder, self.record.patched),
                self.record.carried,
                self.patch,
                series,
                change,
                staging,
                self.request.releases,
            )
            candidate, begun = search.changed_patch()
            if candidate is None:
                return ended(self.folder, change, replacement.unchanged(len(begun)))
            carried = self.record.carried is not None
            result = replacement.put(candidate, begun, staging, carried=carried)
        return ended(self.folder, change, result)
