"""A change becomes a draft of a patch: its edits, what they say, and what they do not give."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.importing.assembly import AssembledPatch, assemble
from vpatch.commands.importing.claims import effect_of
from vpatch.commands.importing.concerns import concerns_of
from vpatch.commands.importing.hunks import HunkCounts, count_hunks
from vpatch.commands.importing.patch_yaml import patch_yaml
from vpatch.commands.importing.stale_comments import stale_comments
from vpatch.declare.edits import Predicate
from vpatch.deriving.derive import (
    DOCSTRING,
    ONLY_COMMENTS,
    DerivedEdit,
    NotDerivedError,
    derive,
)
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.library.patch import DECLARATION
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.memory import ChangedTree
from vpatch.workspace.examples import concerned_files, write_example

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.deriving.candidate import Declared
    from vpatch.deriving.other_releases import OtherFile
    from vpatch.source.tree import Tree


# Differences that change nothing of what runs.
_SILENT = frozenset({ONLY_COMMENTS, DOCSTRING})


@dataclass(frozen=True)
class Draft:
    """A patch before it is written. `tree` is what its change is on top of.

    `left_out` are changes of comments or docstrings alone, which the patch does not make.
    """

    change: SourceChange
    derived: tuple[DerivedEdit, ...]
    assembled: AssembledPatch
    concerns: Declared
    effect: Declared | None
    counts: HunkCounts
    tree: Tree
    left_out: tuple[DerivedEdit, ...] = ()

    @property
    def by_text(self) -> tuple[DerivedEdit, ...]:
        """The edits that go by text, as none by meaning gives the same."""
        return tuple(edit for edit in self.derived if edit.why is not None)

    @property
    def inexact(self) -> tuple[DerivedEdit, ...]:
        """The edits that give the code in another layout, or without comments."""
        return tuple(edit for edit in self.derived if edit.gives is not None)

    def write(
        self,
        folder: Path,
        claim: str,
        requires: Sequence[str] = (),
        upstreamed_in: str | None = None,
    ) -> None:
        """Write the folder of the patch; `upstreamed_in` is the first release that has it."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.assembled.files.items():
            (folder / name).write_bytes(content)
        text = patch_yaml(
            self.change,
            self.assembled.edits,
            notes=self.assembled.notes(self.derived),
            needed_in=(self.tree.pin.tree, claim),
            concerns=self.concerns,
            effect=self.effect,
            requires=requires,
            upstreamed_in=upstreamed_in,
        )
        (folder / DECLARATION).write_text(text, encoding="utf-8")

    def write_example(self, folder: Path, files: Mapping[str, bytes], *, merged: bool) -> None:
        """Write the files that change, before and after, as an example of the patch.

        Args:
            folder: that of the patch.
            files: what the patch makes of the files that change.
            merged: the release has the change already, and is an example of that, too.
        """
        version = self.tree.pin.version
        before = {f.path: f.before for f in self.change.files if f.before is not None}
        label = f"{State.NEEDED}-before-{version}" if merged else f"{State.NEEDED}-{version}"
        self._write_sides(folder, label, before, {**before, **files})
        if merged:
            there = {file.path: file.after for file in self.change.files}
            self._write_sides(folder, f"{State.UPSTREAMED}-{version}", there, there)

    def _write_sides(
        self, folder: Path, label: str, before: Mapping[str, bytes], after: Mapping[str, bytes]
    ) -> None:
        concerns = Predicate.model_validate_json(json.dumps(self.concerns))
        more = concerned_files(concerns, self.tree, before)
        write_example(folder / "examples" / label, {**more, **before}, {**more, **after})


def draft(
    change: SourceChange,
    tree: Tree,
    *,
    exact: bool = False,
    text: bool = False,
    merge: bool = True,
    others: Mapping[str, Sequence[OtherFile]] | None = None,
    on_file: Callable[[str], None] = lambda _: None,
) -> Draft:
    """Find the edits of a change; with `text`, none by meaning. `on_file` hears of each file.

    `others` are the files in other releases: of several forms, the one that lasts longest is taken.

    With `merge`, edits that are the same in several places become one. Changes of comments or
    docstrings alone are left out, unless there is no other change or the bytes must be `exact`: as
    text, they would be the first to conflict.

    Raises:
        UsageError: no edit of vpatch says a part of it.
    """
    added = [file for file in change.files if file.before is None]
    derived: list[DerivedEdit] = []
    errors: list[VpatchError] = []
    for file in change.files:
        if file.before is None:
            continue
        on_file(file.path)
        try:
            elsewhere = (others or {}).get(file.path, ())
            derived += derive(file, tree, exact=exact, text=text, others=elsewhere)
        except NotDerivedError as error:
            errors.append(_not_derived(str(error), change.where))
        except UnicodeDecodeError:
            errors.append(_not_derived(f"{file.path} is not UTF-8", change.where))
    if errors:
        raise combine(errors)
    silent = [edit for edit in derived if edit.why in _SILENT or edit.changes_docstring]
    left_out: list[DerivedEdit] = []
    if not exact and not text and (added or len(silent) < len(derived)):
        left_out = [replace(edit, why=edit.why or DOCSTRING) for edit in silent]
        derived = [edit for edit in derived if edit not in silent]
    counts = count_hunks(change.files, derived, left_out)
    notes = (*change.notes, *stale_comments(change.files, derived, left_out))
    change = replace(change, notes=notes)
    untouched = {edit.path for edit in left_out} - {edit.path for edit in derived}
    if untouched:
        files = tuple(file for file in change.files if file.path not in untouched)
        change = replace(change, files=files)
    return _drafted(change, tree, derived, left_out, counts, merge=merge)


def without_merging(one: Draft) -> Draft:
    """The same draft, with an edit of its own for each place."""
    return _drafted(one.change, one.tree, one.derived, one.left_out, one.counts, merge=False)


def _drafted(
    change: SourceChange,
    tree: Tree,
    derived: Sequence[DerivedEdit],
    left_out: Sequence[DerivedEdit],
    counts: HunkCounts,
    *,
    merge: bool,
) -> Draft:
    added = [file for file in change.files if file.before is None]
    assembled = assemble(added, derived, tree, merge=merge)
    before, after = View(tree), View(changed(tree, change))
    docstrings = [one for one in derived if one.why == DOCSTRING or one.changes_docstring]
    show_nothing = [edit for one in docstrings for edit in one.candidate.edits]
    return Draft(
        change,
        tuple(derived),
        assembled,
        concerns_of(change.files, before, after),
        effect_of(assembled, before, after, show_nothing),
        counts,
        tree,
        tuple(left_out),
    )


def changed(tree: Tree, *changes: SourceChange, carried: Sequence[str] = ()) -> ChangedTree:
    """The tree with changes on top of it."""
    files = {file.path: file.after for change in changes for file in change.files}
    return ChangedTree(tree, files, frozenset(carried))


def _not_derived(what: str, where: str) -> UsageError:
    return UsageError(
        f"no edit says this change: {what}",
        where=where,
        hint="take this file out of the source, and write its edit by hand, as a codemod.py",
        code="importing.no-edit",
    )
