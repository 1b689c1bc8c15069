"""What the declaration of a patch says against a change that was laid into another release."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.commands.bump.candidates import renamed_text
from vpatch.commands.edit.declaration.patch_text import read
from vpatch.declare.edits import Predicate
from vpatch.library.patch import DECLARATION
from vpatch.planning.editing import lacks, probe
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.commands.edit.series import Series
    from vpatch.deriving.candidate import Declared
    from vpatch.library.patch import Patch
    from vpatch.merging.three_sides import LaidPatch
    from vpatch.planning.view import View


def doubts_of(
    old: Series, new: Series, below: View, laid: LaidPatch, predicates: Mapping[str, Declared]
) -> Iterator[str]:
    """Why a change that was laid in may be wrong, though it has no conflict.

    Args:
        old: the release that the patch fits.
        new: the other release.
        below: that one, as the patches below leave it.
        laid: what was laid into it.
        predicates: those of the patch that hold in the names of the other release.
    """
    if new.decision.state is State.ABSENT:
        yield f"the code may be gone: {new.decision.reason}"
    for variant in new.patch.variants:
        when = variant.when if variant.name == old.decision.variant else None
        if when is not None and not probe(when, below).holds:
            reason = lacks(when, below)
            yield f"the variant {variant.name!r} is not for such code: the release {reason}"
    effect = new.patch.declaration.effect
    if effect is not None and not laid.places:
        after = below.over(laid.files)
        if not probe(effect, after).holds and "effect" not in predicates:
            yield f"`effect` does not hold with the change: the release {lacks(effect, after)}"
    folders = {str(PurePosixPath(path).parent) for path in below.tree.paths()}
    for path in sorted(laid.files):
        folder = str(PurePosixPath(path).parent)
        if folder not in folders and folder in _folders(old):
            yield f"{path} is the only file of {folder}, which is gone"


def predicates_in_new_names(
    patch: Patch, below: View, laid: LaidPatch, names: Mapping[str, str]
) -> dict[str, Declared]:
    """The predicates of a patch that do not hold with a change, and do so in other names."""
    document = read((patch.folder / DECLARATION).read_bytes().decode())
    views = {"concerns": below, "effect": below.over(laid.files)}
    predicates: dict[str, Declared] = {}
    for key, view in views.items():
        if key not in document or (key == "effect" and laid.places):
            continue
        text = json.dumps(document[key])
        changed = renamed_text(text, names)
        own, other = map(Predicate.model_validate_json, (text, changed))
        if changed != text and not probe(own, view).holds and probe(other, view).holds:
            predicates[key] = json.loads(changed)
    return predicates


def _folders(series: Series) -> set[str]:
    return {str(PurePosixPath(path).parent) for path in series.tree.paths()}
