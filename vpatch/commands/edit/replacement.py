"""A changed patch takes the place of a patch, and what that changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.edit.changed_patch import ChangedPatch, beside_of, with_examples
from vpatch.commands.edit.refresh_result import RefreshedPatch
from vpatch.commands.edit.series import required_series
from vpatch.commands.edit.states import StateChange, releases_asked, states_on
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.util.directories import replace_dir
from vpatch.util.unified_diff import unified_diff

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.commands.edit.series import Series
    from vpatch.deriving.candidate import Declared
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class PatchReplacement:
    """`series` has the patch as it was; `releases` are those to compare.

    `is_own` says that whoever runs the command made the change, so that a trusted patch stays so.
    """

    context: Context
    patch: Patch
    series: Series
    releases: str | None
    is_own: bool = True

    def put(
        self, candidate: ChangedPatch, begun: Sequence[Declared], staging: Path
    ) -> RefreshedPatch:
        """Put a changed patch in place. `begun` are the edits that it was begun with."""
        candidate = with_examples(candidate)
        states = self._states(candidate.patch)
        result = self._result(candidate, begun, *states)
        was_trusted = self.context.trust.state(self.patch.folder) == "trusted"
        replace_dir(staging / self.patch.id, self.patch.folder, staging / "before")
        if was_trusted and self.is_own:
            self.context.trust_own(self.patch.folder)
        return result

    def unchanged(self, total: int) -> RefreshedPatch:
        """The patch says it already."""
        version = self.series.tree.pin.version or self.series.tree.pin.label
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

    def _states(self, new: Patch) -> tuple[tuple[StateChange, ...], tuple[StateChange, ...]]:
        """The states of the series on its release, and of the patch on others."""
        version = self.series.tree.pin.version or self.series.tree.pin.label
        patches = [*self.series.earlier, new, *self.series.later]
        answers = self.context.answers
        after = plan(patches, self.series.tree, answers=answers, shapes=False).decisions
        before = {one.patch.id: one.state for one in self.series.plan.decisions}
        in_series = tuple(
            StateChange(one.patch.id, version, before[one.patch.id], one.state, one.reason)
            for one in after
        )
        name = self.series.tree.pin.tree
        asked = releases_asked(self.context, self.releases, name, self.series.tree.pin.version)
        old = required_series(self.context, self.patch)
        return in_series, tuple(states_on(self.context, old, new, name, asked))

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
            self.unchanged(len(begun)),
            variant=new[-1] if new else None,
            written=True,
            diff=tuple(diff),
            same=same,
            by_text=candidate.folded.by_text,
            examples=candidate.examples,
            series=series,
            releases=releases,
        )
