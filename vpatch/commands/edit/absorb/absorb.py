"""What somebody changed on top of a series goes into its patches, each hunk into its own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, Message, SourceChange
from vpatch.changes.stack import Stack
from vpatch.changes.time_limit import limited_time
from vpatch.checkout.commits import commits_of
from vpatch.commands.edit.absorb.checkout import patches_of_record
from vpatch.commands.edit.absorb.owners import Hunk, HunkOwners, OwnedHunk, with_hunks
from vpatch.commands.edit.absorb.replacement import finish, write_pending
from vpatch.commands.edit.absorb.result import AbsorbedPatch, AbsorbedSeries, RemainingHunk
from vpatch.commands.edit.changed_patch import with_examples
from vpatch.commands.edit.checks import changed_since, left_out_of, refuse_markers
from vpatch.commands.edit.proven_patch import PatchSearch
from vpatch.commands.edit.results import result_of, states_elsewhere, states_in_series, unchanged
from vpatch.commands.edit.series import planned_series, required_series
from vpatch.commands.edit.work_tree import remove_checkout
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.errors import UsageError, VpatchError
from vpatch.git import checkout as git
from vpatch.git.merge import SideLabels, merge_file
from vpatch.planning.plan import plan
from vpatch.planning.state import overall_changes
from vpatch.util.scratch import scratch_folder
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.edit.absorb.record import SeriesRecord
    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.commands.edit.series import Series
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

_NEW_COMMITS = "refs/vpatch/absorbed"


def absorb(
    context: Context, folder: Path, record: SeriesRecord, releases: str | None
) -> AbsorbedSeries:
    """Put each hunk of a work tree into the one patch that it belongs to.

    The others stay in the work tree. Nothing is written until all changed patches are proven.

    Raises:
        UsageError: a patch of the series changed, or the work tree has what no patch can do.
        VpatchError: something cannot be read or written, or the series is not proven.
    """
    record = finish(context, folder, record)
    patches = patches_of_record(context, folder, record)
    with (
        context.tree(spec_of_pin(record.source, record.root), record.source.digest) as tree,
        limited_time(),
        scratch_folder() as staging,
    ):
        decided = plan(patches, tree, answers=context.answers, shapes=False)
        return _Absorption(
            context, folder, record, releases, tree, decided, staging, {p.id: p for p in patches}
        ).run()


@dataclass
class _Absorption:
    """One run. `patches` are those of the series as they become, in order."""

    context: Context
    folder: Path
    record: SeriesRecord
    releases: str | None
    tree: Tree
    decided: Plan
    staging: Path
    patches: dict[str, Patch]
    _remaining: list[RemainingHunk] = field(default_factory=list)
    _absorbed: dict[str, list[Hunk]] = field(default_factory=dict)

    def run(self) -> AbsorbedSeries:
        tip = {path: one.after for path, one in overall_changes(self.decided).items()}
        try:
            change = self._change(tip)
        except UsageError as error:
            if error.code != "importing.nothing-left" or tip:
                raise
            change = SourceChange("", str(self.folder), Message(), ())
        target = self._target(tip, {file.path: file.after for file in change.files})
        by_owner = self._by_owner(tip, target)
        before = list(self.patches.values())
        results = []
        for name in self.patches:
            if name in by_owner:
                result = self._refresh(name, by_owner[name], tip, target)
                if result is not None:
                    results.append(AbsorbedPatch(result, tuple(by_owner[name])))
        kept_for = left_out_of(change)
        if results:
            self._prove(tip, target)
            results = [
                replace(one, result=self._with_states(one.result, before)) for one in results
            ]
            self._write([one.result.id for one in results])
        kept_for = (*kept_for, *changed_since(self.folder, change.files))
        stays = bool(self._remaining or kept_for)
        if not stays:
            remove_checkout(self.folder)
        return AbsorbedSeries(
            folder=self.folder,
            version=self.tree.pin.version or self.tree.pin.label,
            patches=tuple(results),
            remaining=tuple(self._remaining),
            series=states_in_series(
                self.context, self.decided, list(self.patches.values()), self.tree
            )
            if results
            else (),
            checkout=self.folder if stays else None,
            kept_for=kept_for,
        )

    def _change(self, tip: Collection[str]) -> SourceChange:
        """What the work tree has otherwise than the tree without patches."""
        base, stack = self.record.base, Stack(self.tree)
        (change,) = from_checkout(self.folder, base, stack, tip, self.record.tip)
        refuse_markers(self.folder, change)
        return change

    def _target(
        self, tip: Mapping[str, bytes], changed: Mapping[str, bytes]
    ) -> dict[str, bytes | None]:
        """What the work tree has of each file that it or the series changes."""
        pristine = {path for path in tip if path not in changed}
        paths = set(self.tree.paths()) if pristine else set()
        return {
            **changed,
            **{path: self.tree.read(path) if path in paths else None for path in pristine},
        }

    def _by_owner(
        self, tip: Mapping[str, bytes], target: Mapping[str, bytes | None]
    ) -> dict[str, list[Hunk]]:
        owners = HunkOwners(self.decided)
        by_owner: dict[str, list[Hunk]] = defaultdict(list)
        paths = set(self.tree.paths())
        for path in sorted(target):
            pristine = self.tree.read(path) if path in paths and path not in tip else None
            before = tip.get(path, pristine)
            if before == target[path]:
                continue
            for one in owners.of_file(path, before, target[path]):
                owner, reason = self._writable(one)
                if owner is None:
                    self._remaining.append(RemainingHunk(one.hunk.where, reason))
                else:
                    by_owner[owner].append(one.hunk)
        return by_owner

    def _writable(self, one: OwnedHunk) -> tuple[str | None, str]:
        if one.owner is None:
            return None, one.reason
        folder = self.patches[one.owner].folder.resolve()
        if not folder.is_relative_to(self.context.project.folder.resolve()):
            return None, f"{one.owner} changes this code, and is not a patch of the project"
        return one.owner, ""

    def _refresh(
        self,
        name: str,
        hunks: Sequence[Hunk],
        tip: Mapping[str, bytes],
        target: Mapping[str, bytes | None],
    ) -> RefreshedPatch | None:
        """Let a patch say its hunks; None if they stay in the work tree."""
        patch = self.patches[name]
        if patch.codemods:
            self.context.require_trust([patch])
        series = planned_series(self.context, list(self.patches.values()), name, self.tree)
        try:
            wanted = self._wanted(series, hunks, tip, target)
            candidate, begun = self._search(series, wanted).changed_patch()
        except VpatchError as error:
            self._remaining += [RemainingHunk(one.where, f"{name}: {error.what}") for one in hunks]
            return None
        self._absorbed[name] = list(hunks)
        if candidate is None:
            return unchanged(patch, self.tree, len(begun))
        candidate = with_examples(candidate, patch)
        self.patches[name] = candidate.patch
        return result_of(patch, candidate, begun, self.tree)

    def _wanted(
        self,
        series: Series,
        hunks: Sequence[Hunk],
        tip: Mapping[str, bytes],
        target: Mapping[str, bytes | None],
    ) -> dict[str, bytes]:
        """The files that the patch is to make.

        Raises:
            VpatchError: later patches change the same lines.
        """
        files: dict[str, bytes | None] = {
            path: one.after for path, one in series.decision.changes.items()
        }
        below = set(series.tree_below.paths())
        for path in dict.fromkeys(one.path for one in hunks):
            pristine = series.tree_below.read(path) if path in below else None
            ours, base = files.get(path, pristine), tip.get(path, pristine)
            theirs = with_hunks(base, target[path], [one for one in hunks if one.path == path])
            files[path] = self._merged(path, ours, base, theirs)
        read = series.tree_below.read
        return {
            path: text
            for path, text in files.items()
            if text is not None and (path not in below or read(path) != text)
        }

    def _merged(
        self, path: str, ours: bytes | None, base: bytes | None, theirs: bytes | None
    ) -> bytes | None:
        if ours == base or ours is None or base is None or theirs is None:
            return theirs
        with scratch_folder() as folder:
            labels = SideLabels("patch", "series", "work tree")
            merged = merge_file(folder, ours, base, theirs, labels)
        if merged is None or merged.conflicts:
            raise VpatchError(
                f"later patches change the same lines of {path}",
                hint="edit the patch by itself: vpatch edit ID",
                code="edit.not-provable",
            )
        return merged.content

    def _search(self, series: Series, wanted: Mapping[str, bytes]) -> PatchSearch:
        below = series.tree_below
        paths = set(below.paths())

        def begun(asked: Collection[str]) -> dict[str, bytes | None]:
            changes = series.decision.changes
            return {
                path: changes[path].after
                if path in changes
                else (below.read(path) if path in paths else None)
                for path in asked
            }

        files = tuple(
            FileChange(path, below.read(path) if path in paths else None, text)
            for path, text in sorted(wanted.items())
        )
        change = SourceChange(series.patch.id, str(self.folder), Message(), files)
        return PatchSearch(
            self.context,
            self.folder,
            begun,
            None,
            series.patch,
            series,
            change,
            self.staging,
            self.releases,
        )

    def _prove(self, tip: Mapping[str, bytes], target: Mapping[str, bytes | None]) -> None:
        """Compare what the new series makes with the work tree without what remains.

        Raises:
            VpatchError: it differs.
        """
        patches = list(self.patches.values())
        decided = plan(patches, self.tree, answers=self.context.answers, shapes=False)
        files = {path: one.after for path, one in overall_changes(decided).items()}
        hunks = [hunk for each in self._absorbed.values() for hunk in each]
        paths = set(self.tree.paths())
        for path in sorted({*files, *target}):
            pristine = self.tree.read(path) if path in paths else None
            before = tip.get(path, pristine)
            mine = [one for one in hunks if one.path == path]
            expected = with_hunks(before, target.get(path, pristine), mine)
            if files.get(path, pristine) != expected:
                raise VpatchError(
                    f"with the changed patches, the series does not make {path} as the work tree "
                    "has it",
                    where=str(self.folder),
                    hint="edit the patches one by one: vpatch edit ID; the work tree stays as it "
                    "is",
                    code="edit.not-provable",
                )

    def _with_states(self, result: RefreshedPatch, before: Sequence[Patch]) -> RefreshedPatch:
        old = {one.id: one for one in before}
        required = required_series(self.context, old[result.id])
        return replace(
            result,
            releases=states_elsewhere(
                self.context,
                [old.get(one.id, one) for one in required],
                [self.patches.get(one.id, one) for one in required],
                self.tree,
                self.releases,
            ),
        )

    def _write(self, names: Sequence[str]) -> None:
        decided = plan(
            list(self.patches.values()), self.tree, answers=self.context.answers, shapes=False
        )
        commits = git.add_commits(
            self.folder, self.record.base, commits_of(decided), ref=_NEW_COMMITS
        )
        folders = {name: self.staging / name for name in names if (self.staging / name).is_dir()}
        noted = write_pending(
            self.context,
            self.folder,
            self.record,
            folders,
            self.patches,
            commits[-1] if commits else self.record.base,
        )
        finish(self.context, self.folder, noted)
