"""What differs between two releases for a patch, with what is kept of earlier comparisons."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from vpatch.commands.bump.changed_code import ChangedCode
from vpatch.commands.bump.changes import changed_code
from vpatch.planning.shape import surroundings_in

if TYPE_CHECKING:
    from vpatch.commands.bump.changes import ReleaseSide

_CHANGES = TypeAdapter(list[ChangedCode])


def compared(old: ReleaseSide, new: ReleaseSide) -> list[ChangedCode]:
    """Return what `changed_code` finds, from the answers of the new release's view if it is there.

    To compare 35 patches takes 8 s, and most people ask for more than one form of the report.
    """
    rows = new.view.answers.ask(
        "code that changed between two releases",
        [_digest(old), _digest(new)],
        lambda: [asdict(one) for one in changed_code(old, new)],
    )
    return _CHANGES.validate_python(rows)


def _digest(side: ReleaseSide) -> bytes:
    """A digest of all that `changed_code` reads of a side; the pin has that of the tree."""
    one = side.decision
    known = {
        "tree": side.view.tree.pin.digest,
        "state": one.state,
        "definitions": dict(one.shape.definitions) if one.shape else {},
        "around": surroundings_in(one, side.view.tree.pin.tree),
        "changes": {
            path: [
                None if text is None else hashlib.sha256(text).hexdigest()
                for text in (change.before, change.after)
            ]
            for path, change in one.changes.items()
        },
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).digest()
