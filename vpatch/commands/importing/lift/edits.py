"""Edits by text of a patch that is there become edits by meaning that give the same bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange
from vpatch.codemods.bind import bind
from vpatch.commands.importing.assembly import AssembledPatch, assemble
from vpatch.commands.importing.edit_lines import EditsInstead
from vpatch.declare.edits import DiffEdit, TextEdit
from vpatch.deriving.derive import BY_TEXT, DerivedEdit, NotDerivedError, derive
from vpatch.deriving.trial import bound_edits
from vpatch.planning.editing import run_edit
from vpatch.planning.view import View
from vpatch.source.memory import ChangedTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.trust.decision import Trust


@dataclass(frozen=True)
class LiftedEdit:
    """An edit by text, and what becomes of it. `number` is its place in patch.yaml, from 0.

    `derived` is what was found for each place; some of it may be text still. `assembled` are the
    edits instead, None where the edit stays, for the reason `why`.
    """

    number: int
    kind: str
    path: str
    line: int
    derived: tuple[DerivedEdit, ...] = ()
    assembled: AssembledPatch | None = None
    why: str | None = None

    @property
    def instead(self) -> EditsInstead:
        """What is in place of the edit, with comments for edits by text."""
        if self.assembled is None:
            return EditsInstead(None, {0: f"{self.why}."})
        return EditsInstead(self.assembled.edits, self.assembled.notes(self.derived))

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files beside the patch that it needs besides those that are there."""
        return self.assembled.files if self.assembled is not None else {}

    @property
    def becomes(self) -> Counter[str]:
        """How many edits of each kind are in its place; none if it stays."""
        return Counter(each.kind for each in self.derived if self.assembled is not None)

    @property
    def reasons(self) -> list[str]:
        """Why it stays, or why a part of it is still text."""
        if self.assembled is None:
            return [str(self.why)]
        return [each.why for each in self.derived if each.why is not None]


def lifted_edits(
    patch: Patch, tree: Tree, trust: Trust, beside: Mapping[str, bytes]
) -> list[LiftedEdit]:
    """Look for edits by meaning for each edit by text of a patch that applies to a tree.

    `beside` are the files beside the patch.
    """
    lifted: list[LiftedEdit] = []
    view = View(tree)
    taken = dict(beside)
    for number, declared in enumerate(patch.declaration.edits):
        before = view
        view = _run(bind(declared, patch.folder, trust), before) or before
        if isinstance(declared, (TextEdit, DiffEdit)):
            kind = "text" if isinstance(declared, TextEdit) else "diff"
            one = _lift(number, kind, before, view, taken)
            taken |= one.files
            lifted.append(one)
    return lifted


def _run(edits: Sequence[BoundEdit], view: View) -> View | None:
    """What edits make of a view; None where one does not fit."""
    for edit in edits:
        result = run_edit(edit, view)
        if result.mismatch is not None:
            return None
        view = result.view
    return view


def _lift(
    number: int, kind: str, before: View, after: View, taken: Mapping[str, bytes]
) -> LiftedEdit:
    tree = ChangedTree(before.tree, before.files, frozenset())
    derived: list[DerivedEdit] = []
    changes = _changes(before, after)
    staying = LiftedEdit(number, kind, changes[0].path, _first_line(changes[0]))
    for change in changes:
        if change.before is None:
            return replace(staying, why=f"it adds {change.path}")
        try:
            derived += derive(change, tree, exact=True)
        except NotDerivedError as error:
            return replace(staying, why=str(error))
    staying = replace(staying, derived=tuple(derived))
    if all(each.kind in BY_TEXT for each in derived):
        reasons = dict.fromkeys(str(each.why) for each in derived)
        return replace(staying, why=", ".join(reasons))
    for merge in (True, False):
        assembled = assemble([], derived, tree, merge=merge, taken=taken)
        if _gives(assembled, {**taken, **assembled.files}, before, after):
            return replace(staying, assembled=assembled)
    return replace(staying, why="the edits by meaning do not work together")


def _changes(before: View, after: View) -> list[FileChange]:
    return [
        FileChange(path, before.read(path), content)
        for path, content in sorted(after.files.items())
        if before.read(path) != content
    ]


def _first_line(change: FileChange) -> int:
    """The first line of a file that a change is about, from 1."""
    pairs = zip((change.before or b"").splitlines(), change.after.splitlines(), strict=False)
    return next((n for n, (old, new) in enumerate(pairs, 1) if old != new), 1)


def _gives(
    assembled: AssembledPatch, files: Mapping[str, bytes], before: View, after: View
) -> bool:
    """Whether edits make of a view what the edit by text makes of it."""
    bound = bound_edits(assembled.edits, files)
    view = None if bound is None else _run(bound, before)
    return view is not None and _changes(after, view) == _changes(view, after) == []
