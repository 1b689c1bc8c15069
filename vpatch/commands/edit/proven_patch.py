"""A changed patch that gives the work tree: with other edits, or with one more variant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.commands.edit.changed_patch import ChangedPatch, PatchWriter, beside_of
from vpatch.commands.edit.checks import changed_patch_error, location_at, refuse_changed_patch
from vpatch.commands.edit.declaration.conditions import (
    CarriedSides,
    conditions_of_new,
    conditions_of_others,
)
from vpatch.commands.edit.declaration.patch_text import (
    UnwritableEditsError,
    digest_of_edits,
    edits_at,
    with_list,
)
from vpatch.commands.edit.declaration.variant_text import (
    NewVariant,
    free_name,
    with_alternative,
    with_condition,
    with_new_variant,
)
from vpatch.commands.edit.new_edits import FoldedEdits, foldings
from vpatch.commands.edit.series import planned_series, required_series
from vpatch.commands.edit.states import SpoiledReleases, releases_asked, spoiled_on
from vpatch.commands.edit.workbench import Workbench
from vpatch.commands.importing.concerns import concerns_of
from vpatch.deriving.derive import NotDerivedError
from vpatch.errors import UsageError, VpatchError
from vpatch.library.patch import DECLARATION
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.spec import PypiSpec
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.commands.edit.record import CarriedRecord
    from vpatch.commands.edit.series import Series
    from vpatch.deriving.candidate import Declared
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class PatchSearch:
    """Looks for the patch that gives a work tree. `releases` are those that must stay as they are.

    `folder` is the checkout, `staging` is where changed patches are written. `begun` reads files as
    the patch left them when the edit began. `carried` is where a patch that does not fit is from.
    """

    context: Context
    folder: Path
    begun: Callable[[Collection[str]], Mapping[str, bytes | None]]
    carried: CarriedRecord | None
    patch: Patch
    series: Series
    change: SourceChange
    staging: Path
    releases: str | None

    @property
    def _text(self) -> str:
        return (self.patch.folder / DECLARATION).read_bytes().decode()

    @property
    def _where(self) -> str:
        return str(self.patch.folder / DECLARATION)

    def changed_patch(self) -> tuple[ChangedPatch | None, Sequence[Declared]]:
        """A changed patch that holds, and the edits it was begun with; None if nothing changes.

        Raises:
            VpatchError: no list of edits holds.
        """
        wanted = {file.path: file.after for file in self.change.files}
        decision, below = self.series.decision, self.series.tree_below
        carried = self.carried
        if decision.state is State.NEEDED:
            if {path: one.after for path, one in decision.changes.items()} == wanted:
                # A run that was killed may have written it.
                return None, edits_at(self._text, location_at(self.patch, self.series))
            carried = None
        answers = self.context.answers
        ways: Iterator[Iterator[ChangedPatch | str]]
        with scratch_folder() as room:
            bench = Workbench(View(below, answers=answers), wanted, room)
            beside = beside_of(self.patch.folder)
            if carried is None:
                location = location_at(self.patch, self.series)
                edits = edits_at(self._text, location)
                outcome = bench.run(edits, beside)
                refuse_changed_patch(self.patch, outcome, self.begun)
                writer = self._writer(
                    lambda folded: with_list(self._text, location, folded.edits, self._where),
                    bench,
                )
                ways = (writer.candidates(one) for one in foldings(bench, edits, beside))
            else:
                if carried.edits != digest_of_edits(self._text):
                    raise changed_patch_error(self.patch)
                edits = list(carried.start)
                ways = self._variants(bench, carried, beside)
            failures: list[str] = []
            candidate = first_that_holds(ways, failures)
        if candidate is not None:
            return candidate, edits
        reasons = "; ".join(dict.fromkeys(failures)) or "no list of edits gives the same bytes"
        raise VpatchError(
            f"no edits that were tried hold for {self.patch.id}: {reasons}",
            where=str(self.folder),
            hint="correct the code there, or change `effect` in patch.yaml if the cure is another "
            "one now; then run the command again",
            code="edit.not-provable",
        )

    def _variants(
        self, bench: Workbench, carried: CarriedRecord, beside: dict[str, bytes]
    ) -> Iterator[Iterator[ChangedPatch | str]]:
        """The patch with one more variant, for each list of edits that gives the work tree."""
        release = PypiSpec(self.series.tree.pin.tree, carried.release)
        with self.context.tree(release) as old:
            sides = self._sides(old, bench)
            for folded in foldings(bench, carried.start, beside):
                own = _in_own_files(folded, beside, self._release)
                yield self._with_variant(own, carried, bench, beside, sides)

    @property
    def _release(self) -> str:
        return self.series.tree.pin.version or self.series.tree.pin.label

    def _with_variant(
        self,
        folded: FoldedEdits,
        carried: CarriedRecord,
        bench: Workbench,
        beside: dict[str, bytes],
        sides: CarriedSides,
    ) -> Iterator[ChangedPatch | str]:
        """The first patch that stays what it is in other releases; else the one nearest to that."""
        best: tuple[int, ChangedPatch] | None = None
        others = conditions_of_others(self.patch, sides)
        if not others:
            yield (
                "an earlier variant fits what the work tree has, and no code of the files that "
                "the patch changes tells the releases apart"
            )
        whens = conditions_of_new(self._text, folded, carried.start, bench, beside, sides)
        for other, when in product(others, whens):
            candidate = None
            for one in self._tried(self._texts(folded, carried, when, other), folded, bench):
                if isinstance(one, ChangedPatch):
                    candidate = one
                else:
                    yield one
            if candidate is None:
                continue
            spoiled = self._spoiled(candidate.patch, carried)
            if spoiled.unstable is not None:
                yield spoiled.unstable
                continue
            if not spoiled.versions:
                yield candidate
                return
            if best is None or len(spoiled.versions) < best[0]:
                best = len(spoiled.versions), candidate
        if best is not None:
            # The next candidate took its place in the staging folder.
            text = best[1].text
            yield from self._writer(lambda _: text, bench).candidates(folded)

    def _tried(
        self,
        texts: Iterator[Callable[[FoldedEdits], str]],
        folded: FoldedEdits,
        bench: Workbench,
    ) -> Iterator[ChangedPatch | str]:
        """What is wrong with the patch of each text, up to the first that holds."""
        for text_of in texts:
            for one in self._writer(text_of, bench).candidates(folded):
                yield one
                if isinstance(one, ChangedPatch):
                    return

    def _spoiled(self, patch: Patch, carried: CarriedRecord) -> SpoiledReleases:
        name = self.series.tree.pin.tree
        asked = releases_asked(self.context, self.releases, name, self.series.tree.pin.version)
        versions = list(dict.fromkeys([carried.release, *reversed(asked)]))
        return spoiled_on(
            self.context, required_series(self.context, self.patch), patch, name, versions
        )

    def _writer(self, text_of: Callable[[FoldedEdits], str], bench: Workbench) -> PatchWriter:
        return PatchWriter(
            self.patch,
            text_of,
            self.series.tree_below,
            bench.wanted,
            self.staging,
            self.context.answers,
        )

    def _sides(self, old: Tree, bench: Workbench) -> CarriedSides:
        series = planned_series(self.context, self.series.patches, self.patch.id, old)
        below = View(series.tree_below, answers=self.context.answers)
        files = {path: one.after for path, one in series.decision.changes.items()}
        return CarriedSides(
            (below, below.over(files)), (bench.below, bench.below.over(bench.wanted))
        )

    def _texts(
        self,
        folded: FoldedEdits,
        carried: CarriedRecord,
        when: Declared | None,
        others: Mapping[int, Declared],
    ) -> Iterator[Callable[[FoldedEdits], str]]:
        """The text with the variant, and with a `concerns` that knows this release."""
        text = self._text
        notes = {n: one.note for n, one in enumerate(folded.edits) if one.note is not None}
        variant = NewVariant(
            f"up to {carried.release}",
            free_name(text, f"from {self._release}"),
            [one.declared for one in folded.edits],
            notes,
            when,
        )
        changed = with_new_variant(text, variant, self._where)
        for number, condition in others.items():
            changed = with_condition(changed, number, condition, self._where)
        for key, predicate in carried.predicates.items():
            changed = with_alternative(changed, key, predicate) or changed
        yield lambda _: changed
        if self.series.decision.state is State.ABSENT:
            before = View(self.series.tree_below, answers=self.context.answers)
            after = before.over({file.path: file.after for file in self.change.files})
            concerns = concerns_of(self.change.files, before, after)
            wider = with_alternative(changed, "concerns", concerns)
            if wider is not None:
                yield lambda _: wider


def _in_own_files(folded: FoldedEdits, beside: dict[str, bytes], release: str) -> FoldedEdits:
    """The edits with files of their own, where they changed one that other variants use."""
    names: dict[str, str] = {}
    files = dict(folded.files)
    for name, content in folded.files.items():
        if name in beside and beside[name] != content:
            path = PurePosixPath(name)
            new = f"{path.stem}_{release.replace('.', '_')}{path.suffix}"
            while new in files:
                new = f"_{new}"
            names[name] = new
            files |= {name: beside[name], new: content}
    if not names:
        return folded
    edits = [replace(one, declared=_with_names(one.declared, names)) for one in folded.edits]
    return replace(folded, edits=tuple(edits), files=files)


def _with_names(edit: Declared, names: dict[str, str]) -> Declared:
    renamed: Declared = {}
    for key, value in edit.items():
        if isinstance(value, dict) and "from" in value:
            renamed[key] = {**value, "from": names.get(str(value["from"]), value["from"])}
        elif key in {"from", "diff", "codemod"}:
            renamed[key] = names.get(str(value), value)
        else:
            renamed[key] = value
    return renamed


def first_that_holds(
    ways: Iterator[Iterator[ChangedPatch | str]], failures: list[str]
) -> ChangedPatch | None:
    """The first changed patch that holds; else `failures` gets what is wrong with each.

    Raises:
        UsageError: patch.yaml cannot be written so, and no other way holds.
    """
    unwritable: UsageError | None = None
    try:
        for way in ways:
            try:
                for one in way:
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
