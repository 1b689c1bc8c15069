"""A newer form of what a patch makes becomes the patch, without a checkout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vpatch.commands.edit.changed_patch import PatchWriter, beside_of
from vpatch.commands.edit.checks import location_at
from vpatch.commands.edit.declaration.patch_text import Location, edits_at, with_list
from vpatch.commands.edit.declaration.predicate_text import with_effect
from vpatch.commands.edit.new_edits import FoldedEdits, foldings
from vpatch.commands.edit.proven_patch import first_that_holds
from vpatch.commands.edit.replacement import PatchReplacement
from vpatch.commands.edit.workbench import Workbench
from vpatch.errors import UsageError, VpatchError
from vpatch.library.patch import DECLARATION
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.util.scratch import scratch_folder, staging_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.commands.edit.series import Series
    from vpatch.deriving.candidate import Declared
    from vpatch.workspace.context import Context


def refuse_unfit(series: Series) -> None:
    """Refuse a patch that does not apply to its tree: then nothing can be compared with it.

    Raises:
        UsageError: it does not.
    """
    patch, decision = series.patch, series.decision
    if decision.state is not State.NEEDED:
        raise UsageError(
            f"the patch {patch.id!r} is {decision.state} on {series.tree.pin.label}: "
            f"{decision.reason}",
            where=str(patch.folder / DECLARATION),
            hint=f"name a release that it applies to, or run vpatch edit {patch.id} --vllm VERSION "
            "first, which carries it over",
            code="edit.not-needed",
        )


def fold_in(
    context: Context,
    series: Series,
    wanted: Mapping[str, bytes],
    effect: Declared | None,
    releases: str | None,
    *,
    is_own: bool,
) -> RefreshedPatch:
    """Make a patch give these files of the tree of its series, and write it.

    Edits that still give their part stay word for word. So does the effect, unless the patch gives
    it no more: then it becomes `effect`. `releases` are those to compare.

    Raises:
        VpatchError: no list of edits holds.
    """
    patch, where = series.patch, str(series.patch.folder / DECLARATION)
    text = (patch.folder / DECLARATION).read_bytes().decode()
    location = location_at(patch, series)
    edits = edits_at(text, location)
    replacement = PatchReplacement(context, patch, series, releases, is_own)
    if {path: one.after for path, one in series.decision.changes.items()} == wanted:
        return replacement.unchanged(len(edits))
    beside, failures = beside_of(patch.folder), list[str]()
    with (
        scratch_folder() as room,
        staging_folder(patch.folder.parent, "refreshing") as staging,
    ):
        bench = Workbench(View(series.tree_below, answers=context.answers), wanted, room)
        writers = [
            PatchWriter(
                patch,
                partial(_written, text, location, where),
                series.tree_below,
                wanted,
                staging,
                context.answers,
            )
            for text in dict.fromkeys([text, with_effect(text, effect)])
        ]
        ways = (
            writer.candidates(one) for writer in writers for one in foldings(bench, edits, beside)
        )
        candidate = first_that_holds(ways, failures)
        if candidate is None:
            reasons = "; ".join(dict.fromkeys(failures)) or "no list of edits gives the same bytes"
            raise VpatchError(
                f"no edits that were tried hold for {patch.id}: {reasons}",
                where=where,
                hint="if `effect` tells another cure now, change it in patch.yaml, and run the "
                "command again",
                code="edit.not-provable",
            )
        return replacement.put(candidate, edits, staging)


def _written(text: str, location: Location, where: str, folded: FoldedEdits) -> str:
    return with_list(text, location, folded.edits, where)
