"""What the work tree of an edit says becomes the patch, once that is proven."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.time_limit import limited_time
from vpatch.commands.edit.changed_patch import ChangedPatch, beside_of, with_examples
from vpatch.commands.edit.checks import change_of, series_of_record
from vpatch.commands.edit.proven_patch import PatchSearch
from vpatch.commands.edit.record import find_edit, read_record
from vpatch.commands.edit.refresh_result import RefreshedPatch, RefreshRequest
from vpatch.commands.edit.series import refuse_foreign, required_series
from vpatch.commands.edit.states import StateChange, releases_asked, states_on
from vpatch.commands.edit.work_tree import remove_checkout
from vpatch.errors import UsageError
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.util.directories import replace_dir
from vpatch.util.scratch import staging_folder
from vpatch.util.unified_diff import unified_diff
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.commands.edit.record import EditRecord
    from vpatch.commands.edit.series import Series
    from vpatch.deriving.candidate import Declared
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
        with staging_folder(self.patch.folder.parent, "refreshing") as staging:
            search = PatchSearch(
                self.context,
                self.folder,
                self.record,
                self.patch,
                series,
                change,
                staging,
                self.request.releases,
            )
            candidate, begun = search.changed_patch()
            if candidate is None:
                return self._end(change, self._unchanged(len(begun)))
            candidate = with_examples(candidate)
            states = self._states(series, candidate.patch)
            result = self._result(candidate, begun, *states)
            was_trusted = self.context.trust.state(self.patch.folder) == "trusted"
            replace_dir(staging / self.patch.id, self.patch.folder, staging / "before")
        if was_trusted:
            self.context.trust_own(self.patch.folder)
        return self._end(change, result)

    def _states(
        self, series: Series, new: Patch
    ) -> tuple[tuple[StateChange, ...], tuple[StateChange, ...]]:
        """The states of the series on its release, and of the patch on others."""
        version = self.tree.pin.version or self.tree.pin.label
        patches = [*series.earlier, new, *series.later]
        answers = self.context.answers
        after = plan(patches, self.tree, answers=answers, shapes=False).decisions
        before = {one.patch.id: one.state for one in series.plan.decisions}
        in_series = tuple(
            StateChange(one.patch.id, version, before[one.patch.id], one.state, one.reason)
            for one in after
        )
        name = self.tree.pin.tree
        asked = releases_asked(self.context, self.request.releases, name, self.tree.pin.version)
        old = required_series(self.context, self.patch)
        return in_series, tuple(states_on(self.context, old, new, name, asked))

    def _unchanged(self, total: int) -> RefreshedPatch:
        version = self.tree.pin.version or self.tree.pin.label
        return RefreshedPatch(
            self.patch.id,
            self.patch.folder,
            version,
            written=False,
            variant=None,
            diff=(),
            same=total,
            total=total,
            by_text=(),
            examples=(),
            series=(),
            releases=(),
            checkout=None,
            kept_for=(),
        )

    def _result(
        self,
        candidate: ChangedPatch,
        begun: Sequence[Declared],
        series: tuple[StateChange, ...],
        releases: tuple[StateChange, ...],
    ) -> RefreshedPatch:
        before = (self.patch.folder / DECLARATION).read_bytes()
        diff = list(unified_diff(DECLARATION, before, candidate.text.encode()))
        beside = beside_of(self.patch.folder)
        for name, content in candidate.folded.files.items():
            if beside.get(name) != content:
                diff += unified_diff(name, beside.get(name), content)
        for name in candidate.removed:
            diff.append(f"removed {name}: no edit uses it any more\n".encode())
        same = sum(
            one.origin is not None and one.declared == begun[one.origin]
            for one in candidate.folded.edits
        )
        known = {one.name for one in self.patch.variants}
        new = [one.name for one in candidate.patch.variants if one.name not in known]
        return replace(
            self._unchanged(len(begun)),
            variant=new[-1] if self.record.carried and new else None,
            written=True,
            diff=tuple(diff),
            same=same,
            by_text=candidate.folded.by_text,
            examples=candidate.examples,
            series=series,
            releases=releases,
        )

    def _end(self, change: SourceChange, result: RefreshedPatch) -> RefreshedPatch:
        """Remove the checkout, unless it has what is in no patch."""
        reasons = [f"{one.path}: {one.why}" for one in change.aside]
        reasons += [note for note in change.notes if note.startswith("git ignores")]
        if reasons:
            return replace(result, checkout=self.folder, kept_for=tuple(reasons))
        remove_checkout(self.folder)
        return result
