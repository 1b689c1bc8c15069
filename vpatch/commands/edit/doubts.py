"""What the declaration of a patch says against a change that was laid into another release."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.planning.editing import describe, lacks, probe
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.edit.series import Series
    from vpatch.commands.edit.three_sides import LaidPatch
    from vpatch.planning.view import View


def doubts_of(old: Series, new: Series, below: View, laid: LaidPatch) -> Iterator[str]:
    """Why a change that was laid in may be wrong, though it has no conflict.

    Args:
        old: the release that the patch fits.
        new: the other release.
        below: that one, as the patches below leave it.
        laid: what was laid into it.
    """
    if new.decision.state is State.ABSENT:
        yield f"the code may be gone: {new.decision.reason}"
    for variant in new.patch.variants:
        if variant.name == old.decision.variant and variant.when is not None:
            if not probe(variant.when, below).holds:
                yield (
                    f"the variant {variant.name!r} is for a release that has "
                    f"{describe(variant.when)}; this one {lacks(variant.when, below)}"
                )
    effect = new.patch.declaration.effect
    if effect is not None and not laid.places:
        after = below.over(laid.files)
        if not probe(effect, after).holds:
            yield f"`effect` does not hold with the change: the release {lacks(effect, after)}"
    folders = {str(PurePosixPath(path).parent) for path in below.tree.paths()}
    for path in sorted(laid.files):
        folder = str(PurePosixPath(path).parent)
        if folder not in folders and folder in _folders(old):
            yield f"{path} is the only file of {folder}, which is gone"


def _folders(series: Series) -> set[str]:
    return {str(PurePosixPath(path).parent) for path in series.tree.paths()}
