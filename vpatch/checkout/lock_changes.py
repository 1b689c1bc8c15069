"""What a checkout has now, against the one that it replaced."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.source.tree import LOCK_FILE
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.checkout.lockfile import LockFile
    from vpatch.checkout.new_lock import NewLock


@dataclass(frozen=True)
class LockChanges:
    """Ids of patches by what became of them.

    `source` is the release or the digest that the earlier checkout was made from, if that was
    another one. `gone` says of each patch which state it has now, None if nobody asked for it.
    A patch is `changed` if it is not declared as it was, or another variant of it fits.
    """

    source: str | None
    new: tuple[str, ...]
    gone: Mapping[str, str | None]
    changed: tuple[str, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        since = "since the last apply" + (f", on {self.source}" if self.source else "")
        lists = (
            ("new", self.new),
            ("gone", [f"{one} ({why})" if why else one for one, why in self.gone.items()]),
            ("changed", self.changed),
        )
        counts = [f"{len(ids)} {what}: {', '.join(ids)}" for what, ids in lists if ids]
        same = f"{counted(len(self.kept), 'patch')} as before" if self.kept else ""
        return f"{since}: {'; '.join(filter(None, (*counts, same))) or 'no patch, as before'}"


def lock_before(target: Path) -> LockFile | None:
    """Read the lock of a checkout that is to be replaced; None if none can be read."""
    if not os.path.lexists(target / LOCK_FILE):
        return None
    from vpatch.checkout.lockfile import LockError, read_lock  # noqa: PLC0415 - needs pydantic

    try:
        return read_lock(target / LOCK_FILE)
    except LockError:
        return None


def changes_since(before: LockFile, now: NewLock | LockFile) -> LockChanges:
    """Compare the patches of two locks."""
    old = {patch.id: (patch.digest, patch.variant) for patch in before.patches}
    new = {patch.id: (patch.digest, patch.variant) for patch in now.patches}
    states = {patch.id: patch.state for patch in now.skipped}
    pin = before.source
    return LockChanges(
        None if pin.digest == now.source.digest else pin.version or pin.digest[:19],
        tuple(one for one in new if one not in old),
        {one: states.get(one) for one in old if one not in new},
        tuple(one for one in new if one in old and new[one] != old[one]),
        tuple(one for one in new if new[one] == old.get(one)),
    )
