"""A changed patch takes the place of a patch, and what that changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.edit.changed_patch import with_examples
from vpatch.commands.edit.results import (
    result_of,
    states_elsewhere,
    states_in_series,
    unchanged,
)
from vpatch.commands.edit.series import required_series
from vpatch.util.directories import replace_dir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.commands.edit.changed_patch import ChangedPatch
    from vpatch.commands.edit.refresh_result import RefreshedPatch
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
        self,
        candidate: ChangedPatch,
        begun: Sequence[Declared],
        staging: Path,
        *,
        carried: bool = False,
    ) -> RefreshedPatch:
        """Put a changed patch in place. `begun` are the edits that it was begun with.

        `carried` says that these are of another release.
        """
        candidate = with_examples(candidate, self.patch, carried=carried)
        tree = self.series.tree
        patches = [*self.series.earlier, candidate.patch, *self.series.later]
        old = required_series(self.context, self.patch)
        new = [*old[:-1], candidate.patch]
        result = replace(
            result_of(self.patch, candidate, begun, tree, carried=carried),
            series=states_in_series(self.context, self.series.plan, patches, tree),
            releases=states_elsewhere(self.context, old, new, tree, self.releases),
        )
        was_trusted = self.context.trust.state(self.patch.folder) == "trusted"
        replace_dir(staging / self.patch.id, self.patch.folder, staging / "before")
        if was_trusted and self.is_own:
            self.context.trust_own(self.patch.folder)
        return result

    def unchanged(self, total: int) -> RefreshedPatch:
        """The patch says it already."""
        return unchanged(self.patch, self.series.tree, total)
