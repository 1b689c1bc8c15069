"""One run of an import: changes become drafts, are proven, and are compared with other releases."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from vpatch.commands.importing.claims import effect_by_text
from vpatch.commands.importing.comparison import ReleaseComparison
from vpatch.commands.importing.draft import Draft, changed, draft, without_merging
from vpatch.commands.importing.lacking_imports import with_lacking_imports
from vpatch.commands.importing.needed_names import patches_needed_by_name
from vpatch.commands.importing.proof import (
    ImportProof,
    decisions_alone,
    give_together,
    proven,
)
from vpatch.commands.importing.request import ImportedPatch
from vpatch.errors import ManyErrors, UsageError, VpatchError, combine
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.trust.decision import NOTHING
from vpatch.workspace.examples import run_examples
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.commands.importing.request import ImportRequest
    from vpatch.deriving.other_releases import OtherFile
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

_Plainer = Literal["apart", "exact", "text"]
# Longer than any line of code.
_LONG = 10_000
# Of so many earlier patches each is left out once, to see whether a patch needs it.
_MOST_TRIED = 8


@dataclass(frozen=True)
class ImportRun:
    """One run, in a folder for what is not proven yet.

    `tree` is what the changes are on top of: the release, or `release` without them. `releases` are
    those to compare with git, None for all in the cache.
    """

    context: Context
    request: ImportRequest
    releases: tuple[str, ...] | None
    tree: Tree
    release: Tree | None
    staging: Path
    # The files of the changes in the releases to compare.
    _elsewhere: dict[str, Sequence[OtherFile]] = field(default_factory=dict)
    # Names the patches that a patch requires of those that `tree` has already.
    needed_below: Callable[[Patch], Sequence[str]] | None = None

    def run(self, changes: Sequence[SourceChange]) -> list[ImportedPatch]:
        paths = {f.path for change in changes for f in change.files if f.before is not None}
        self._elsewhere.update(self._comparison.other_files(sorted(paths)))
        drafts: list[Draft] = []
        errors: list[VpatchError] = []
        count = sum(file.before is not None for change in changes for file in change.files)
        task = self.context.progress.start("Finding edits", total=count, unit="file")

        def begin(path: str) -> None:
            task.describe(path)
            task.advance(1)

        for number, change in enumerate(changes):
            try:
                below = self._below(changes[:number])
                exact, text = self.request.exact, self.request.text
                others = self._others(changes, number)
                drafts.append(
                    draft(change, below, exact=exact, text=text, others=others, on_file=begin)
                )
            except VpatchError as error:
                errors.append(error)
        task.done()
        if errors:
            raise combine(errors)
        drafts, proofs, notes = self._make_provable(drafts)
        drafts = self._with_imports(drafts)
        requires = self._requires(drafts)
        if self.needed_below is not None:
            patches = self._write(drafts, requires)
            requires = {one.id: (*self.needed_below(one), *requires[one.id]) for one in patches}
        if self.release is not None:
            drafts = self._recognise(drafts, requires)
            proofs = self._proofs(drafts, _chain(drafts))
        return self._compare(drafts, proofs, requires, notes)

    @property
    def _comparison(self) -> ReleaseComparison:
        return ReleaseComparison(self.context, self.releases, self.tree, self.release)

    def _others(
        self, changes: Sequence[SourceChange], number: int
    ) -> Mapping[str, Sequence[OtherFile]]:
        """The files of a change in other releases, but for those that earlier changes have too."""
        earlier = {file.path for change in changes[:number] for file in change.files}
        paths = {file.path for file in changes[number].files if file.before is not None} - earlier
        return {path: files for path, files in self._elsewhere.items() if path in paths}

    def _below(self, earlier: Sequence[SourceChange]) -> Tree:
        return changed(self.tree, *earlier) if earlier else self.tree

    def _proofs(
        self, drafts: Sequence[Draft], requires: Mapping[str, Sequence[str]]
    ) -> list[ImportProof]:
        patches = self._write(drafts, requires)
        return proven(patches, drafts, self.tree, self.context.answers)

    def _load(self, drafts: Sequence[Draft]) -> list[Patch]:
        """The patches of drafts that were written.

        Raises:
            UsageError: one is not what vpatch reads, for example as a line is too long for it.
        """
        patches: list[Patch] = []
        for one in drafts:
            try:
                patches.append(load_patch(self.staging / one.change.id, NOTHING))
            except VpatchError as error:
                raise _unwritable(one, error) from error
        return patches

    def _write(self, drafts: Sequence[Draft], requires: Mapping[str, Sequence[str]]) -> list[Patch]:
        for one in drafts:
            needed = requires.get(one.change.id, ())
            one.write(self.staging / one.change.id, self._comparison.claim(()), needed)
        return self._load(drafts)

    def _make_provable(
        self, drafts: list[Draft]
    ) -> tuple[list[Draft], list[ImportProof], dict[str, str]]:
        """The drafts, each as text if its edits by meaning do not work together."""
        notes: dict[str, str] = {}
        proofs = self._proofs(drafts, _chain(drafts))
        ways: tuple[_Plainer, ...] = ("apart", "exact", "text")
        for plainer in ways:
            if self.request.text or not any(proof.failure for proof in proofs):
                break
            for number, proof in enumerate(proofs):
                if proof.failure is not None:
                    drafts[number] = self._plainer(drafts, number, plainer)
                    if plainer == "text":
                        notes[drafts[number].change.id] = (
                            f"imported as text, as by meaning {proof.failure}"
                        )
            proofs = self._proofs(drafts, _chain(drafts))
        errors: list[VpatchError] = [
            _refusal(one, proof.failure)
            for one, proof in zip(drafts, proofs, strict=True)
            if proof.failure is not None
        ]
        if errors:
            raise combine(errors)
        return drafts, proofs, notes

    def _with_imports(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts, with imports that other releases lack for the new code."""
        for number, one in enumerate(drafts):
            others = self._others([each.change for each in drafts], number)
            further = with_lacking_imports(self.context, one, others)
            tried = [*drafts[:number], further, *drafts[number + 1 :]]
            is_more = further is not one
            if is_more and not any(proof.failure for proof in self._proofs(tried, _chain(tried))):
                drafts = tried
        return drafts

    def _plainer(self, drafts: Sequence[Draft], number: int, how: _Plainer) -> Draft:
        """A draft with an edit for each place, or one that is derived anew: `exact`, or as text."""
        if how == "apart":
            return without_merging(drafts[number])
        changes = [one.change for one in drafts]
        below = self._below(changes[:number])
        others = self._others(changes, number)
        return draft(
            changes[number], below, exact=how == "exact", text=how == "text", others=others
        )

    def _requires(self, drafts: Sequence[Draft]) -> dict[str, tuple[str, ...]]:
        """Which patches each one needs: by the files that they change, and by what it imports."""
        by_name = patches_needed_by_name([one.change for one in drafts])
        by_file = self._requires_by_file(drafts)
        return {
            name: tuple(dict.fromkeys([*needed, *by_name[name]]))
            for name, needed in by_file.items()
        }

    def _requires_by_file(self, drafts: Sequence[Draft]) -> dict[str, tuple[str, ...]]:
        """Of patches of one file: those without which one does not fit the release.

        Without a recipe, patches apply in the order of their ids, and must give the same then.
        """
        chain = _chain(drafts)
        if not any(chain.values()):
            return chain
        patches = {patch.id: patch for patch in self._write(drafts, {})}
        fit = {name: self._needed_to_fit(name, chain[name], patches) for name in chain}
        files = {file.path: file.after for one in drafts for file in one.change.files}
        for by_order in (False, True):
            requires = {
                name: tuple(one for one in needed if one in fit[name] or (by_order and one > name))
                for name, needed in chain.items()
            }
            series = sorted(self._write(drafts, requires), key=lambda patch: patch.id)
            if give_together(series, files, self.tree, self.context.answers):
                return requires
        return chain

    def _needed_to_fit(
        self, name: str, earlier: Sequence[str], patches: Mapping[str, Patch]
    ) -> Sequence[str]:
        """The earlier patches that one needs, by trials without each; of many, all or none."""
        needed = list(earlier)
        trials = [[one] for one in earlier] if len(earlier) <= _MOST_TRIED else []
        for out in [list(earlier), *trials]:
            rest = [one for one in needed if one not in out]
            plans = plan(
                [patches[one] for one in (*rest, name)],
                self.tree,
                answers=self.context.answers,
                shapes=False,
            )
            if all(one.state is State.NEEDED for one in plans.decisions):
                needed = rest
        return needed

    def _recognise(
        self, drafts: Sequence[Draft], requires: Mapping[str, Sequence[str]]
    ) -> list[Draft]:
        """The drafts, each with edits and an effect that recognise the release which has it."""
        recognised = list(drafts)
        for number in range(len(recognised)):
            if self._is_recognised(recognised, number, requires):
                continue
            for other in self._alternatives(recognised, number):
                tried = [*recognised[:number], other, *recognised[number + 1 :]]
                if self._is_recognised(tried, number, requires):
                    proofs = self._proofs(tried, _chain(tried))
                    if not any(proof.failure for proof in proofs):
                        recognised = tried
                        break
        return recognised

    def _alternatives(self, drafts: Sequence[Draft], number: int) -> Iterator[Draft]:
        """Other drafts of a change, with more edits or with an effect by text."""
        one = drafts[number]
        below = self._below([each.change for each in drafts[:number]])
        by_text = effect_by_text(one.change.files, self.tree, one.left_out)
        if self.request.text:
            yield replace(one, effect=by_text)
            return
        others = self._others([each.change for each in drafts], number)
        yield without_merging(one)
        # What has another layout does not have the text.
        if not one.inexact:
            yield replace(one, effect=by_text)
        exact = draft(one.change, below, exact=True, merge=False, others=others)
        yield exact
        yield replace(exact, effect=effect_by_text(one.change.files, self.tree))

    def _is_recognised(
        self, drafts: Sequence[Draft], number: int, requires: Mapping[str, Sequence[str]]
    ) -> bool:
        """Whether a patch is `upstreamed` in the release that has it."""
        if self.release is None:
            return False
        patches = self._write(drafts, requires)
        decisions = decisions_alone(patches, self.release, self.context.answers)
        return decisions[drafts[number].change.id].state is State.UPSTREAMED

    def _compare(
        self,
        drafts: Sequence[Draft],
        proofs: Sequence[ImportProof],
        requires: Mapping[str, tuple[str, ...]],
        notes: Mapping[str, str],
    ) -> list[ImportedPatch]:
        patches = self._write(drafts, requires)
        comparison = self._comparison
        ids = {name for needed in requires.values() for name in needed} - {p.id for p in patches}
        below = with_required(sorted(ids), self.context.library)
        rows = comparison.rows([*below, *patches], drafts)
        imported = []
        for number, (one, proof) in enumerate(zip(drafts, proofs, strict=True)):
            releases = tuple(row[number] for row in rows)
            needed = requires.get(one.change.id, ())
            last = None if self.release is None else comparison.first_with_it(releases)
            one.write(self.staging / one.change.id, comparison.claim(releases), needed, last)
            more = [*one.change.notes]
            more += [notes[one.change.id]] if one.change.id in notes else []
            more += [failure for edit in one.derived for failure in edit.failures]
            more += proof.notes
            if self.request.examples:
                more += self._write_example(one, proof, needed, merged=last is not None)
            folder = self.staging / one.change.id
            own = None if self.release is None else self.release.pin.version
            imported.append(ImportedPatch(one, folder, proof, needed, releases, tuple(more), own))
        self._load(drafts)
        return imported

    def _write_example(
        self, one: Draft, proof: ImportProof, needed: Sequence[str], *, merged: bool
    ) -> Iterator[str]:
        """Write the example of a patch if it holds, and say why there is none."""
        if needed:
            others = ", ".join(needed)
            yield f"no example: the patch requires {others}, and an example has one patch alone"
            return
        folder = self.staging / one.change.id
        one.write_example(folder, proof.files, merged=merged)
        for result in run_examples(self._load([one])[0]):
            if result.failures:
                shutil.rmtree(folder / "examples" / result.name)
                yield f"no example {result.name}: {result.failures[0]}"
        if not any((folder / "examples").iterdir()):
            (folder / "examples").rmdir()


def _chain(drafts: Sequence[Draft]) -> dict[str, tuple[str, ...]]:
    """For each patch the earlier ones that change a file of it."""
    earlier: dict[str, tuple[str, ...]] = {}
    for number, one in enumerate(drafts):
        own = {file.path for file in one.change.files}
        earlier[one.change.id] = tuple(
            other.change.id
            for other in drafts[:number]
            if own & {file.path for file in other.change.files}
        )
    return earlier


def _unwritable(one: Draft, error: VpatchError) -> VpatchError:
    """The error for the source: its reader knows nothing of the folder of what is not proven."""
    lines = [
        (len(line), number, file.path)
        for file in one.change.files
        for number, line in enumerate(file.after.splitlines(), 1)
    ]
    length, number, path = max(lines, default=(0, 0, ""))
    longest = f"; {path}:{number} has {length} bytes" if length > _LONG else ""
    errors = error.errors if isinstance(error, ManyErrors) else [error]
    return UsageError(
        f"no patch.yaml says this change: it {errors[0].what}{longest}",
        where=one.change.where,
        hint="take this file out of the source, or import the source in several parts",
        code="importing.no-edit",
    )


def _refusal(one: Draft, failure: str) -> VpatchError:
    return VpatchError(
        f"vpatch would not apply the imported patch {one.change.id!r}: {failure}",
        where=one.change.where,
        hint="correct the source: vpatch refuses code that does not compile, and names that "
        "pyflakes finds wrong",
        code="importing.not-provable",
    )
