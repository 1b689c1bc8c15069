"""What differs between two releases for a patch, with what is kept of earlier comparisons."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vpatch.commands.bump.changed_code import ChangedCode
from vpatch.commands.bump.changes import changed_code
from vpatch.commands.bump.code import CodePlace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.commands.bump.changes import ReleaseSide


def compared(old: ReleaseSide, new: ReleaseSide) -> list[ChangedCode]:
    """Return what `changed_code` finds, from the answers of the new release's view if it is there.

    To compare 35 patches takes 8 s, and most people ask for more than one form of the report.
    """
    rows = new.view.answers.ask(
        "code that changed between two releases",
        [_digest(old), _digest(new)],
        lambda: [asdict(one) for one in changed_code(old, new)],
    )
    return [_changed(row) for row in rows]


def _digest(side: ReleaseSide) -> bytes:
    """A digest of all that `changed_code` reads of a side; the pin has that of the tree."""
    one = side.decision
    known = {
        "tree": side.view.tree.pin.digest,
        "state": one.state,
        "definitions": dict(one.shape.definitions) if one.shape else {},
        "changes": {
            path: [
                None if text is None else _sha256(text) for text in (change.before, change.after)
            ]
            for path, change in one.changes.items()
        },
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).digest()


def _sha256(text: bytes | None) -> str | None:
    return None if text is None else hashlib.sha256(text).hexdigest()


def _changed(row: Mapping[str, Any]) -> ChangedCode:
    before, patched, after = (_place(row[name]) for name in ("before", "patched", "after"))
    return ChangedCode(row["kind"], row["edited"], before, patched, after, tuple(row["ours"]))


def _place(row: Mapping[str, Any] | None) -> CodePlace | None:
    return None if row is None else CodePlace(**{**row, "lines": tuple(row["lines"])})
