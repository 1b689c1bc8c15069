"""Edits by text of a patch of the project become edits by meaning, once that is proven."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.importing.edit_lines import NotLiftableError, with_edits
from vpatch.commands.importing.lift.edits import LiftedEdit, lifted_edits
from vpatch.commands.importing.proof import failure_of_second, without_requires
from vpatch.declare.edits import DiffEdit, TextEdit
from vpatch.errors import UsageError
from vpatch.library.loading import load_patch
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.planning.state import State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.trust.decision import EVERYTHING
from vpatch.util.directories import remove, replace_dir
from vpatch.util.scratch import staging_folder
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.library.patch import Patch
    from vpatch.source.spec import TreeSpec
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class LiftedPatch:
    """A patch whose edits by text were looked at: none if it has no such edit any more.

    `removed` are files that no edit uses now.
    """

    id: str
    folder: Path
    version: str
    edits: tuple[LiftedEdit, ...]
    removed: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many edits became others."""
        return sum(edit.assembled is not None for edit in self.edits)


def lift_patch(context: Context, patch_id: str, release: TreeSpec) -> LiftedPatch:
    """Lift the edits by text of a patch, by a release that it applies to, and write it.

    Raises:
        UsageError: there is no such patch in the project, or it does not apply to the release.
    """
    patches = with_required([patch_id], context.library)
    (patch,) = (one for one in patches if one.id == patch_id)
    _check_liftable(patch, context.project.folder)
    if release.tree not in patch.relations.needed_in:
        raise UsageError(
            f"the patch {patch_id!r} is not for {release.tree}",
            where=str(patch.folder / DECLARATION),
            hint=f"give --vllm or --tree with {' or '.join(patch.relations.needed_in)}",
            code="library.wrong-tree",
        )
    with context.tree(release) as tree:
        if not any(isinstance(edit, (TextEdit, DiffEdit)) for edit in patch.declaration.edits):
            return LiftedPatch(patch.id, patch.folder, tree.pin.version or tree.pin.label, (), ())
        return _Lift(context, patch, [one for one in patches if one is not patch], tree).run()


def _check_liftable(patch: Patch, project: Path) -> None:
    where = str(patch.folder / DECLARATION)
    if not patch.folder.resolve().is_relative_to(project.resolve()):
        raise NotLiftableError(
            f"the patch {patch.id!r} is not one of the project",
            where=where,
            hint="copy its folder to patches/ of the project",
        )
    if patch.declaration.variants:
        raise NotLiftableError(
            f"the patch {patch.id!r} has variants, and vpatch lifts only a list of edits",
            where=where,
            hint="write edits by meaning into the variants by hand",
        )


@dataclass(frozen=True)
class _Lift:
    """One run. `required` are the patches below the one that is lifted."""

    context: Context
    patch: Patch
    required: Sequence[Patch]
    tree: Tree

    @property
    def _version(self) -> str:
        return self.tree.pin.version or self.tree.pin.label

    def run(self) -> LiftedPatch:
        series = plan([*self.required, self.patch], self.tree, answers=self.context.answers)
        (decision,) = (one for one in series.decisions if one.patch.id == self.patch.id)
        if decision.state is not State.NEEDED:
            raise UsageError(
                f"the patch {self.patch.id!r} is {decision.state} on {self._version}: "
                f"{decision.reason}",
                where=str(self.patch.folder / DECLARATION),
                hint="name a release that the patch applies to",
                code="importing.does-not-apply",
            )
        wanted = {path: change.after for path, change in decision.changes.items()}
        below = plan(self.required, self.tree, answers=self.context.answers)
        files = {path: change.after for path, change in overall_changes(below).items()}
        tree = ChangedTree(self.tree, files, frozenset(one.id for one in self.required))
        beside = {p.name: p.read_bytes() for p in self.patch.folder.iterdir() if p.is_file()}
        edits = lifted_edits(self.patch, tree, self.context.trust, beside)
        # For what is not proven yet.
        with staging_folder(self.patch.folder.parent, "lifting") as staging:
            chosen, removed = self._prove(edits, tree, wanted, staging)
            folder = self.patch.folder
            was_trusted = self.context.trust.state(folder) == "trusted"
            replace_dir(staging / self.patch.id, folder, staging / "before")
        if was_trusted:
            self.context.trust_own(folder)
        return LiftedPatch(self.patch.id, folder, self._version, tuple(chosen), removed)

    def _prove(
        self, edits: Sequence[LiftedEdit], tree: Tree, wanted: dict[str, bytes], staging: Path
    ) -> tuple[list[LiftedEdit], tuple[str, ...]]:
        """Write what holds in a copy: all edits, or else those that hold one by one."""
        failure, removed = self._try(edits, tree, wanted, staging)
        if failure is None:
            return list(edits), removed
        chosen = [_stay(one, "") if one.assembled is not None else one for one in edits]
        for at, one in enumerate(edits):
            if one.assembled is None:
                continue
            before, chosen[at] = chosen[at], one
            failure, removed = self._try(chosen, tree, wanted, staging)
            if failure is not None:
                chosen[at] = _stay(before, f"with edits by meaning, {failure}")
        failure, removed = self._try(chosen, tree, wanted, staging)
        if failure is not None:
            raise NotLiftableError(
                f"with other comments, {failure}",
                where=str(self.patch.folder / DECLARATION),
                hint="run vpatch test, and correct the patch",
            )
        return chosen, removed

    def _try(
        self, edits: Sequence[LiftedEdit], tree: Tree, wanted: dict[str, bytes], staging: Path
    ) -> tuple[str | None, tuple[str, ...]]:
        """Write a copy of the patch with these edits, and say what is wrong with it."""
        folder = staging / self.patch.id
        remove(folder)
        shutil.copytree(self.patch.folder, folder, symlinks=True)
        where = str(self.patch.folder / DECLARATION)
        text = (folder / DECLARATION).read_bytes().decode()
        text = with_edits(text, {one.number: one.instead for one in edits}, where)
        (folder / DECLARATION).write_bytes(text.encode())
        for one in edits:
            for name, content in one.files.items():
                (folder / name).write_bytes(content)
        # The code in the copy is that of the patch. If the user did not trust that, its state was
        # not `needed`.
        lifted = load_patch(folder, EVERYTHING)
        removed = tuple(sorted(_used_files(self.patch) - _used_files(lifted)))
        for name in removed:
            (folder / name).unlink()
        return self._failure(lifted, tree, wanted), removed

    def _failure(self, patch: Patch, tree: Tree, wanted: dict[str, bytes]) -> str | None:
        """Apply a patch twice. The first time it must give the bytes, the second time nothing."""
        alone, answers = without_requires(patch), self.context.answers
        (first,) = plan([alone], tree, answers=answers).decisions
        if first.state is not State.NEEDED:
            return f"the patch is {first.state}: {first.reason}"
        files = {path: change.after for path, change in first.changes.items()}
        if files != wanted:
            return "the patch does not give the same bytes"
        return failure_of_second(alone, tree, files, answers)


def _used_files(patch: Patch) -> set[str]:
    """The names of the files that edits of a patch use."""
    return {path.name for variant in patch.variants for e in variant.edits for path in e.uses}


def _stay(edit: LiftedEdit, why: str) -> LiftedEdit:
    return replace(edit, assembled=None, why=why)
