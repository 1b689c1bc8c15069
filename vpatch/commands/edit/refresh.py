"""What the work tree of an edit says becomes the patch, once that is proven."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.stack import Stack
from vpatch.changes.time_limit import limited_time
from vpatch.commands.edit.changed_patch import (
    ChangedPatch,
    PatchWriter,
    beside_of,
    with_examples,
)
from vpatch.commands.edit.new_edits import foldings
from vpatch.commands.edit.patch_text import UnwritableEditsError, edits_at
from vpatch.commands.edit.record import find_edit, read_record
from vpatch.commands.edit.series import Series, planned_series, refuse_foreign, required_series
from vpatch.commands.edit.states import StateChange, releases_asked, states_on
from vpatch.commands.edit.work_tree import remove_checkout
from vpatch.commands.edit.workbench import Outcome, Workbench
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.deriving.derive import NotDerivedError
from vpatch.errors import UsageError, VpatchError
from vpatch.git import checkout as git
from vpatch.git.branch import content_at
from vpatch.git.found import opened_checkout
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.util.directories import replace_dir
from vpatch.util.scratch import scratch_folder, staging_folder
from vpatch.util.unified_diff import unified_diff
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.commands.edit.new_edits import FoldedEdits
    from vpatch.commands.edit.patch_text import Location
    from vpatch.commands.edit.record import EditRecord
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class RefreshRequest:
    """Which edit to end, and the releases to compare."""

    patch_id: str | None
    checkout: Path | None
    releases: str | None


@dataclass(frozen=True)
class RefreshedPatch:
    """A patch that says what the work tree says.

    Attributes:
        id: the patch.
        folder: where it lies.
        version: the release that it was edited on.
        written: whether it differs from what it was.
        diff: the lines of the differences of its files, in bytes.
        same: how many of its edits stay word for word, of `total` before.
        by_text: places that go by text, with the reasons.
        examples: what became of examples that do not hold as they were.
        series: the states of the series' patches on the release.
        releases: the states of the patch on other releases.
        checkout: the folder of the edit, where it stays; `kept_for` says why.
    """

    id: str
    folder: Path
    version: str
    written: bool
    diff: tuple[bytes, ...]
    same: int
    total: int
    by_text: tuple[str, ...]
    examples: tuple[str, ...]
    series: tuple[StateChange, ...]
    releases: tuple[StateChange, ...]
    checkout: Path | None
    kept_for: tuple[str, ...]

    @property
    def needs_a_person(self) -> bool:
        """Whether something stops now, or is not in the patch."""
        worse = any(one.is_worse for one in (*self.series, *self.releases))
        broken = any("does not hold" in note for note in self.examples)
        return worse or broken or bool(self.kept_for)


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
        series = self._series()
        change = self._change(series)
        wanted = {file.path: file.after for file in change.files}
        variant = self._variant(series)
        location: Location = ("edits",) if variant is None else ("variants", variant, "edits")
        with staging_folder(self.patch.folder.parent, "refreshing") as staging:
            candidate, total = self._proven(series, wanted, location, staging)
            if candidate is None:
                return self._end(change, self._unchanged(total))
            candidate = with_examples(candidate)
            states = self._states(series, candidate.patch)
            result = self._result(candidate, total, *states)
            was_trusted = self.context.trust.state(self.patch.folder) == "trusted"
            replace_dir(staging / self.patch.id, self.patch.folder, staging / "before")
        if was_trusted:
            self.context.trust_own(self.patch.folder)
        return self._end(change, result)

    def _series(self) -> Series:
        """The series as it was when the edit began.

        Raises:
            UsageError: an earlier patch was changed since.
        """
        record, library = self.record, self.context.library
        ids = [*record.earlier, record.patch, *record.later]
        missing = [one for one in ids if one not in library.patches]
        patches = library.load([one for one in ids if one in library.patches])
        changed = [
            one.id for one in patches if record.earlier.get(one.id, one.digest) != one.digest
        ]
        changed += [one for one in missing if one in record.earlier]
        if changed:
            raise UsageError(
                f"{', '.join(changed)} changed since the edit began, and the work tree has it as "
                "it was",
                where=str(self.folder),
                hint=f"save your change (git diff refs/vpatch/patched), run vpatch edit --abort "
                f"{record.patch}, and begin again",
                code="edit.series-changed",
            )
        return planned_series(self.context, patches, record.patch, self.tree)

    def _change(self, series: Series) -> SourceChange:
        """What the work tree has otherwise than the tree below the patch."""
        with opened_checkout(self.folder) as repo:
            changed = bool(git.changed_paths(repo, self.record.below))
        if not changed:
            raise UsageError(
                "nothing of the patch remains in the work tree",
                where=str(self.folder),
                hint="to drop the patch, take it out of its recipe and remove its folder; or take "
                "the change back with git checkout refs/vpatch/patched -- .",
                code="edit.nothing-left",
            )
        stack = Stack(series.tree_below)
        (change,) = from_checkout(self.folder, self.record.below, stack)
        return change

    def _variant(self, series: Series) -> int | None:
        """The number of the variant that is edited; None for a patch without variants."""
        names = [one.name for one in self.patch.declaration.variants]
        if not names:
            return None
        name = series.decision.variant
        if name in names:
            return names.index(name)
        fitting = [
            number
            for number, one in enumerate(self.patch.variants)
            if one.name == name or name is None
        ]
        if len(fitting) == 1:
            return fitting[0]
        raise UsageError(
            f"the patch is {series.decision.state} on {self.tree.pin.label}: "
            f"{series.decision.reason}",
            where=str(self.patch.folder / DECLARATION),
            hint="correct patch.yaml so that the patch applies, or begin the edit again",
            code="edit.not-needed",
        )

    def _proven(
        self, series: Series, wanted: dict[str, bytes], location: Location, staging: Path
    ) -> tuple[ChangedPatch | None, int]:
        """A changed patch that holds, and how many edits there were; None if nothing changes.

        Raises:
            VpatchError: no list of edits holds.
        """
        below = series.tree_below
        text = (self.patch.folder / DECLARATION).read_bytes().decode()
        edits, beside = edits_at(text, location), beside_of(self.patch.folder)
        failures: list[str] = []
        with scratch_folder() as room:
            bench = Workbench(View(below, answers=self.context.answers), wanted, room)
            outcome = bench.run(edits, beside)
            is_needed = series.decision.state is State.NEEDED
            if isinstance(outcome, Outcome) and not bench.differing(outcome.view) and is_needed:
                return None, len(edits)  # a run that was killed may have written it
            self._refuse_changed_patch(outcome)
            writer = PatchWriter(self.patch, location, below, wanted, staging, self.context.answers)
            candidate = _first(writer, foldings(bench, edits, beside), failures)
            if candidate is not None:
                return candidate, len(edits)
        reasons = "; ".join(dict.fromkeys(failures)) or "no list of edits gives the same bytes"
        raise VpatchError(
            f"no edits that were tried hold for {self.patch.id}: {reasons}",
            where=str(self.folder),
            hint="if `effect` tells another cure now, change it in patch.yaml, and run the command "
            "again; the work tree stays as it is",
            code="edit.not-provable",
        )

    def _refuse_changed_patch(self, outcome: Outcome | int) -> None:
        """Refuse a patch whose edits somebody changed since: the work tree would undo that."""
        if isinstance(outcome, Outcome):
            paths = set(outcome.view.files)
            with opened_checkout(self.folder) as repo:
                was = {path: content_at(repo, self.record.patched, path) for path in paths}
            if all(outcome.view.read(path) == content for path, content in was.items()):
                return
        raise UsageError(
            "the edits of the patch changed since the edit began, and the work tree has the change "
            "as it was",
            where=str(self.patch.folder / DECLARATION),
            hint=f"save your change (git diff refs/vpatch/patched), run vpatch edit --abort "
            f"{self.patch.id}, and begin again",
            code="edit.patch-changed",
        )

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
        total: int,
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
        old = edits_at(before.decode(), candidate.location)
        same = sum(
            one.origin is not None and one.declared == old[one.origin]
            for one in candidate.folded.edits
        )
        return replace(
            self._unchanged(total),
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


def _first(
    writer: PatchWriter, ways: Iterator[FoldedEdits], failures: list[str]
) -> ChangedPatch | None:
    """The first changed patch that holds; else `failures` gets what is wrong with each.

    Raises:
        UsageError: patch.yaml cannot be written so, and no other way holds.
    """
    unwritable: UsageError | None = None
    try:
        for folded in ways:
            try:
                for one in writer.candidates(folded):
                    if isinstance(one, ChangedPatch):
                        return one
                    failures.append(one)
            except UnwritableEditsError as error:
                unwritable = unwritable or error
    except NotDerivedError as error:
        failures.append(str(error))
    if unwritable is not None:
        raise unwritable
    return None
