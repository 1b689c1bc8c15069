"""Which patches below a new patch needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, Message, SourceChange
from vpatch.commands.importing.needed_names import patches_needed_by_name, same_calls
from vpatch.errors import VpatchError
from vpatch.planning.plan import plan
from vpatch.planning.relations import required
from vpatch.planning.state import State, overall_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.edit.into.ground import Ground
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class NeededBelow:
    """Finds which patches of the work tree a new patch needs."""

    context: Context
    ground: Ground
    change: SourceChange

    def __call__(self, new: Patch) -> list[str]:
        """The ids of those that it does not apply without, or that define what it imports.

        Raises:
            VpatchError: in the series, it does not make the work tree.
        """
        below = self.ground.below
        wanted = self._files([*below, new])
        expected = {**self.ground.files_of(below), **{f.path: f.after for f in self.change.files}}
        if wanted is None or wanted != expected:
            after = f" after {below[-1].id}" if below else ""
            raise VpatchError(
                f"{new.id} does not make the bytes of the work tree{after}",
                where=self.change.where,
                hint=f"import the change as a diff: git diff {self.ground.commit[:12]}, vpatch "
                "import",
                code="edit.not-provable",
            )
        changes = {one.patch.id: one.changes for one in self.ground.plan.decisions}
        own = {file.path for file in self.change.files}
        by_name = patches_needed_by_name([*(self._as_change(p) for p in below), self.change])
        near = [p for p in below if p.id in by_name[new.id] or own & changes[p.id].keys()]
        needed = [
            patch
            for patch in near
            if patch.id in by_name[new.id] or not self._fits_without(patch, new, wanted)
        ]
        # Where each of several patches is enough, and none is too little, all are taken.
        requires = next(
            some
            for some in (needed, near, below)
            if self._files([*self._with_required(some), new]) is not None
        )
        indirect = {other.id for patch in requires for other in required(patch, below)}
        return [patch.id for patch in requires if patch.id not in indirect]

    def _with_required(self, patches: Sequence[Patch]) -> list[Patch]:
        below = self.ground.below
        ids = {other.id for one in patches for other in (one, *required(one, below))}
        return [one for one in below if one.id in ids]

    def _fits_without(self, patch: Patch, new: Patch, wanted: dict[str, bytes]) -> bool:
        """Whether the new patch applies without one that, behind it, stops or gives the same."""
        below = self.ground.below
        behind = [one for one in below if one is patch or patch in required(one, below)]
        before = [one for one in below if one not in behind]
        if self._files([*before, new]) is None:
            return False
        swapped = self._plan([*before, new, *behind])
        files = {path: change.after for path, change in overall_changes(swapped).items()}
        return any(one.state.stops for one in swapped.decisions) or same_calls(files, wanted)

    def _files(self, patches: Sequence[Patch]) -> dict[str, bytes] | None:
        """What patches make of the tree, the new one among them; None if it does not apply."""
        known = {one.patch.id: one.state for one in self.ground.plan.decisions}
        plans = self._plan(patches)
        if any(one.state is not known.get(one.patch.id, State.NEEDED) for one in plans.decisions):
            return None
        return {path: change.after for path, change in overall_changes(plans).items()}

    def _plan(self, patches: Sequence[Patch]) -> Plan:
        return plan(patches, self.ground.tree, answers=self.context.answers, shapes=False)

    def _as_change(self, patch: Patch) -> SourceChange:
        decisions = self.ground.plan.decisions
        (decision,) = (one for one in decisions if one.patch.id == patch.id)
        files = [FileChange(path, one.before, one.after) for path, one in decision.changes.items()]
        return SourceChange(patch.id, "", Message(), tuple(files))
