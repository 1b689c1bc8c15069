"""Decisions that were made before: each on one patch, and on a tree as other patches leave it.

A plan follows from all of its patches, so it is made anew after an edit of one of them. What was
decided on another one is still true if it sees the same files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from vpatch.planning.difference import difference, with_difference
from vpatch.planning.shape import row_of_shape, shape_of_row
from vpatch.planning.state import Change, Decision, Finding, State
from vpatch.source.memory import made_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from vpatch.library.patch import Patch
    from vpatch.planning.view import View

_FIELDS = (
    *("state", "reason", "variant", "disagreement"),
    *("places", "files", "needs_sources", "claimed"),
)
# A question for `Answers`, with the digests of the contents that it is about.
Key = tuple[str, list[bytes]]


def key_of(
    patch: Patch,
    view: View,
    carried: Collection[str],
    others: Iterable[Patch],
    *,
    surroundings: bool,
) -> Key | None:
    """Name all that a decision on a patch follows from; None where that is not known.

    Args:
        patch: what to decide on.
        view: the tree as the patches before this one leave it. Its pin must tell its content.
        carried: ids of the patches that the tree's lock file names.
        others: the patches that are decided on together.
        surroundings: whether all shapes have what is around them.
    """
    identity = patch.identity
    if identity is None:
        return None
    pin = view.tree.pin
    changed = sorted(view.files)
    base = made_of(view.tree)
    known = {
        "decision on": identity,
        "in": [pin.tree, pin.version, pin.digest],
        "carried": patch.id in carried,
        "others": sorted((one.id, one.recorded) for one in others if one.id in carried),
        "surroundings": surroundings,
        "made of": base.digest if base else None,
        "changed": changed,
    }
    return json.dumps(known), [view.digest(path) for path in changed]


def recall(key: Key, patch: Patch, view: View) -> Decision | None:
    """Return the decision on a patch that was kept, without findings; None if none was."""
    row = view.answers.recall(*key)
    return None if row is None else _decision(row, patch, view)


def keep(key: Key, decision: Decision, view: View) -> None:
    """Keep a decision. Findings are left out: whoever is told of them changes something next."""

    def row() -> Any:
        changes = {p: difference(c.before or b"", c.after) for p, c in decision.changes.items()}
        return row_of_decision(replace(decision, findings=())) | {"changes": changes}

    view.answers.ask(*key, row)


def row_of_decision(decision: Decision) -> dict[str, Any]:
    """Return what JSON has of a decision, but for its patch and its changes."""
    return {
        **{name: getattr(decision, name) for name in _FIELDS},
        "findings": [asdict(one) for one in decision.findings],
        "shape": row_of_shape(decision.shape),
    }


def decision_of_row(row: Any, patch: Patch, changes: Mapping[str, Change]) -> Decision:
    """Return the decision that `row_of_decision` was given."""
    return Decision(
        patch,
        State(row["state"]),
        row["reason"],
        tuple(Finding(**one) for one in row["findings"]),
        row["variant"],
        changes,
        row["disagreement"],
        shape_of_row(row["shape"]),
        row["places"],
        tuple(row["files"]),
        row["needs_sources"],
        row["claimed"],
    )


def _decision(row: Any, patch: Patch, view: View) -> Decision:
    changes: dict[str, Change] = {}
    for path, change in row["changes"].items():
        before = view.read(path)
        changes[path] = Change(before, with_difference(before or b"", change))
    return decision_of_row(row, patch, changes)
