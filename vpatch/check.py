"""The drift gate: the patches must still make what the lock says, and the checkout hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.apply import users_changes
from vpatch.commits import digest_of, lock_of
from vpatch.outcome import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.lock import Lock
    from vpatch.outcome import Plan


def drift(lock: Lock, plan: Plan) -> Iterator[str]:
    """How the patches as they are declared now differ from those in the lock, a line each.

    `plan` must be one of the lock's patches on the lock's source.
    """
    decisions = {decision.patch.id: decision for decision in plan.decisions}
    for locked in lock.patches:
        decision = decisions[locked.id]
        if decision.patch.digest != locked.digest:
            yield f"{locked.id} was edited since it was locked"
        if decision.state is not State.NEEDED:
            yield f"{locked.id} is {decision.state}, but the lock has it applied: {decision.reason}"
    made = {file.path: file for file in lock_of(plan, None, "", [""] * len(plan.taken)).files}
    for file in lock.files:
        now = made.pop(file.path, None)
        if now is None:
            yield f"{file.path}: no patch changes it any more"
        elif now != file:
            yield f"{file.path}: the patches now make {now.after}, the lock has {file.after}"
    for path in made:
        yield f"{path}: a patch changes it, and the lock does not know"


def damage(lock: Lock, checkout: Path) -> Iterator[str]:
    """How a checkout differs from its lock, a line each."""
    for file in lock.files:
        path = checkout / file.path
        if not path.is_file():
            yield f"{file.path}: is missing in the checkout"
        elif digest_of(path.read_bytes()) != file.after:
            yield f"{file.path}: has other contents in the checkout than in the lock"
    yield from users_changes(checkout, lock)
