"""Plans that follow from what is recorded of decisions: no tree is read.

Commands that write or prove something decide anew, and only compare.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from vpatch.planning.relations import order, required, with_claim
from vpatch.planning.shape import SHAPED, shape_of
from vpatch.planning.state import Decision, Plan, State

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

    from vpatch.library.decisions import DecisionsOfPatch, RecordedDecision, RecordedDecisions
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Pin

_log = logging.getLogger(__name__)
# The id and the digest of each patch of a series.
Series = tuple[tuple[str, str], ...]


def recorded_plan(
    patches: Sequence[Patch],
    pin: Pin,
    tables: Sequence[tuple[Path, RecordedDecisions]],
    *,
    alone: Container[str] = (),
) -> Plan | None:
    """Return the plan for some patches on a release; None if one decision is not recorded.

    Args:
        patches: what to decide on.
        pin: that of the tree.
        tables: what is recorded for this tree, with the folder of patches that it lies in.
        alone: as in `vpatch.planning.plan.plan`.
    """
    tables = [
        (root, table)
        for root, table in tables
        if table.archives.get(pin.version or "") == pin.digest
    ]
    if not tables or pin.kind != "pypi":
        return None
    decisions: list[Decision] = []
    before: Series = ()
    for patch in order(patches):
        is_alone = patch.id in alone or not before
        series = None if is_alone else before
        decision = _recorded(patch, patches, pin, tables, series)
        if decision is None:
            _log.info("%s is not recorded for %s in this order", patch.id, pin.label)
            return None
        decisions.append(decision)
        if patch.id not in alone:
            before = (*before, (patch.id, patch.digest))
    _log.info("the plan for %s is recorded", pin.label)
    return Plan(pin, tuple(decisions))


def series_of(patches: Sequence[Patch]) -> Series:
    """Return what tells a series of patches from another one."""
    return tuple((patch.id, patch.digest) for patch in patches)


def code_of(patch: Patch) -> tuple[str, ...] | None:
    """Return digests of the own code of a patch; None where more decides what it does."""
    if any(code.digest is None or code.refusal is not None for code in patch.own_code):
        return None
    own = patch.codemods if patch.own_code else []
    if any(one.inputs.modules for one in own):
        return None
    return tuple(hashlib.sha256(one.source).hexdigest() for one in own)


def _recorded(
    patch: Patch,
    patches: Sequence[Patch],
    pin: Pin,
    tables: Sequence[tuple[Path, RecordedDecisions]],
    before: Series | None,
) -> Decision | None:
    """What is recorded of a patch, alone or after those `before` it."""
    for root, table in tables:
        one = table.patches.get(patch.id)
        if one is None or not _is_of(one, patch, patches):
            continue
        if before is None:
            # Of a patch that lies elsewhere, only what it means in a series is taken.
            if root not in patch.folder.parents:
                continue
            rows = [row for row in one.decisions if pin.version in row.releases]
        else:
            wanted = (*before, (patch.id, patch.digest))
            names = [n for n, own in table.series.items() if own[: len(wanted)] == wanted]
            rows = [
                row
                for row in one.decisions
                if any(pin.version in row.in_series.get(name, ()) for name in names)
            ]
        row = next(iter(rows), None)
        decision = _decision(row, patch, pin) if row else None
        if decision is not None:
            return decision
    return None


def _is_of(one: DecisionsOfPatch, patch: Patch, patches: Sequence[Patch]) -> bool:
    """Whether it is recorded of a patch as it is now, and with what it requires now."""
    requires = series_of(required(patch, patches))
    return (one.digest, one.requires, one.code) == (patch.digest, requires, code_of(patch))


def _decision(row: RecordedDecision, patch: Patch, pin: Pin) -> Decision | None:
    state = State(row.state)
    decision = Decision(
        patch, state, row.reason, variant=row.variant, places=row.places, files=row.files
    )
    if state in SHAPED:
        recorded = patch.shapes.shapes.get(pin.tree, ()) if patch.shapes else ()
        known = next((one for one in recorded if pin.version in one.releases), None)
        shape = shape_of(decision, known.definitions, pin) if known else None
        if shape is None or shape.release != pin.version:
            return None
        decision = replace(decision, shape=shape)
    return with_claim(decision, pin)
