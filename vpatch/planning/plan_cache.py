"""Plans that were made before: the same bytes, patches and code lead to the same ones.

`vpatch check` does not ask here: it makes everything anew, and so finds out if this were wrong.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from vpatch.planning.kept_decisions import decision_of_row, row_of_decision
from vpatch.planning.state import Change, Decision, Plan
from vpatch.util.own_code import code_digest
from vpatch.util.record_store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.planning.state import FindingsFor
    from vpatch.source.tree import Pin, Tree

_log = logging.getLogger(__name__)


def cached_plan(
    folder: Path,
    patches: Sequence[Patch],
    tree: Tree,
    *,
    to_write: bool,
    findings_for: FindingsFor = "stopping",
    alone: Collection[str] = (),
    surroundings: bool = False,
    answers: Callable[[], Answers | None] = lambda: None,
) -> Plan:
    """Return the plan for some patches on a tree, from a file in `folder` where it is there.

    A plan that is not `to_write` may have decisions without their changes. For `findings_for`,
    `alone`, `surroundings` and `answers` see `plan`. `answers` is called before a plan is made
    anew, which takes seconds.
    """
    key = _key(patches, tree.pin, tree.carried, to_write, findings_for, alone, surroundings)
    store = RecordStore(folder)
    if key is None:
        for reason in reasons_to_decide_anew(patches):
            _log.info("the plan for %s is not cached: %s", tree.pin.label, reason)
    else:
        known = _recall(store, key, patches, tree.pin, partial(_pristine, tree))
        if known is not None:
            return known
    known_answers = answers()
    # What is in the cache needs no libcst, which takes 0.3 s to import.
    from vpatch.planning import plan as planning  # noqa: PLC0415

    plan = planning.plan(
        patches,
        tree,
        findings_for=findings_for,
        alone=alone,
        answers=known_answers,
        remember=True,
        surroundings=surroundings,
    )
    if key is not None:
        store.put(
            key,
            [_row(d, with_changes=to_write, alone=d.patch.id in alone) for d in plan.decisions],
        )
    return plan


def kept_plan(
    folder: Path,
    patches: Sequence[Patch],
    pin: Pin,
    *,
    findings_for: FindingsFor = "stopping",
    alone: Collection[str] = (),
) -> Plan | None:
    """Return what `cached_plan` keeps of a plan that is not `to_write`, without opening the tree.

    None where only the tree can tell. That holds for a tree that carries patches, too: its plans
    are kept under their names. The pin decides what a tree carries, so the two never mix.
    """
    key = _key(patches, pin, (), False, findings_for, alone, False)  # noqa: FBT003
    return None if key is None else _recall(RecordStore(folder), key, patches, pin, lambda _: None)


def keep_plan(
    folder: Path,
    plan: Plan,
    patches: Sequence[Patch],
    *,
    findings_for: FindingsFor = "stopping",
    alone: Collection[str] = (),
) -> None:
    """Keep a plan of a pristine release, so that `kept_plan` returns it."""
    key = _key(patches, plan.pin, (), False, findings_for, alone, False)  # noqa: FBT003
    if key is not None:
        RecordStore(folder).put(key, rows_of(plan))


def reasons_to_decide_anew(patches: Iterable[Patch]) -> list[str]:
    """Say which codemod.py keeps plans out of the cache, with the line, why, and what to do."""
    reasons = {code.reason for patch in patches for code in patch.own_code}
    return [
        f"{reason}, so vpatch cannot remember what it decides; to be faster, let the codemod read "
        f"only the file that it changes"
        for reason in sorted(filter(None, reasons))
    ]


def _key(
    patches: Sequence[Patch],
    pin: Pin,
    carried: Collection[str],
    to_write: bool,  # noqa: FBT001
    findings_for: FindingsFor,
    alone: Collection[str],
    surroundings: bool,  # noqa: FBT001
) -> str | None:
    """Name all that a plan follows from; None where a codemod.py may read more than that."""
    identities = [patch.identity for patch in patches]
    if None in identities:
        return None
    known = {
        "code": code_digest(),
        "tree": [pin.tree, pin.version, pin.digest, sorted(carried)],
        "patches": identities,
        "to write": to_write,
        "tell": findings_for,
        "alone": sorted(alone),
        "surroundings": surroundings,
    }
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]


def _row(decision: Decision, *, with_changes: bool, alone: bool = False) -> dict[str, Any]:
    """A decision as JSON can have it.

    What is decided `alone` does not follow from the changes before it, so its own `before` is kept.
    """
    changes = decision.changes.items() if with_changes else ()
    before = {path: _encoded(change.before) for path, change in changes} if alone else None
    return {
        "patch": decision.patch.id,
        **row_of_decision(decision),
        "before": before,
        "after": {path: _encoded(change.after) for path, change in changes},
    }


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _recall(
    store: RecordStore,
    key: str,
    patches: Sequence[Patch],
    pin: Pin,
    pristine: Callable[[str], bytes | None],
) -> Plan | None:
    """Read a plan; `pristine` returns a file of the tree, or None where it has no such file."""
    plan = store.get(key, lambda rows: _plan_of(rows, patches, pin, pristine))
    if plan is not None:
        _log.info("the plan for %s is in the cache: %s", pin.label, store.file(key))
    return plan


def rows_of(plan: Plan) -> list[dict[str, Any]]:
    """Return a plan without its changes as another process can read it; see `plan_of`."""
    return [_row(decision, with_changes=False) for decision in plan.decisions]


def plan_of(rows: Iterable[Mapping[str, Any]], patches: Sequence[Patch], pin: Pin) -> Plan:
    """Return the plan that `rows_of` was given."""
    return _plan_of(rows, patches, pin, lambda _: None)


def _plan_of(
    rows: Iterable[Mapping[str, Any]],
    patches: Sequence[Patch],
    pin: Pin,
    pristine: Callable[[str], bytes | None],
) -> Plan:
    by_id = {patch.id: patch for patch in patches}
    current: dict[str, bytes] = {}
    decisions: list[Decision] = []
    for row in rows:
        alone = row["before"]
        changes = {}
        for path, text in row["after"].items():
            after = base64.b64decode(text)
            if alone is not None:
                before = None if alone[path] is None else base64.b64decode(alone[path])
            else:
                before = current[path] if path in current else pristine(path)
                current[path] = after
            changes[path] = Change(before, after)
        decisions.append(decision_of_row(row, by_id[row["patch"]], changes))
    return Plan(pin, tuple(decisions))


def _pristine(tree: Tree, path: str) -> bytes | None:
    if path in tree.package_files:
        return tree.package_files[path]
    return tree.read(path) if path in set(tree.paths()) else None
