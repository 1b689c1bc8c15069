"""The drift gate: the patches must still make what the lock says, and the checkout hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.checkout.apply import users_changes
from vpatch.checkout.commits import changed_files
from vpatch.planning.state import State, overall_changes
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vpatch.checkout.lockfile import LockFile
    from vpatch.planning.state import Decision, Plan


def drift(lock: LockFile, plan: Plan) -> Iterator[str]:
    """How the patches as they are declared now differ from those in the lock, a line each.

    `plan` must be one on the lock's source: of the lock's patches, or of those that would be taken
    now.
    """
    decisions = {decision.patch.id: decision for decision in plan.decisions}
    yield from _other_choice(lock, decisions)
    for locked in lock.patches:
        decision = decisions.get(locked.id)
        if decision is None:
            continue
        if decision.patch.digest != locked.digest:
            yield f"{locked.id} was edited since it was locked"
        if decision.state is not State.NEEDED:
            yield f"{locked.id} is {decision.state}, but the lock has it applied: {decision.reason}"
    changed = {file.path: file for file in changed_files(overall_changes(plan))}
    for file in lock.files:
        now = changed.pop(file.path, None)
        if now is None:
            yield f"{file.path}: no patch changes it any more"
        elif (now.before, now.after) != (file.before, file.after):
            yield f"{file.path}: the patches now make {now.after}, the lock has {file.after}"
    for path in changed:
        yield f"{path}: a patch changes it, and the lock does not know"


def _other_choice(lock: LockFile, decisions: Mapping[str, Decision]) -> Iterator[str]:
    """Patches that came or went, or have another place in the order."""
    skipped = {patch.id: patch.state for patch in lock.skipped}
    locked = [patch.id for patch in lock.patches]
    for patch_id, decision in decisions.items():
        if patch_id in skipped and decision.state != skipped[patch_id]:
            yield f"{patch_id} was {skipped[patch_id]} when it was locked, and is {decision.state}"
        elif patch_id not in skipped and patch_id not in locked:
            yield f"{patch_id} is {decision.state}, and the lock does not know it"
    order = [patch_id for patch_id in decisions if patch_id in locked]
    if order != [patch_id for patch_id in locked if patch_id in decisions]:
        yield f"the order is now {', '.join(order)}"


def damage(lock: LockFile, checkout: Path) -> Iterator[str]:
    """How a checkout differs from its lock, a line each."""
    for file in lock.files:
        path = checkout / file.path
        if not path.is_file():
            yield f"{file.path}: is missing in the checkout"
        elif digest_of(path.read_bytes()) != file.after:
            yield f"{file.path}: has other contents in the checkout than in the lock"
    yield from users_changes(checkout, lock)
