"""Decisions that were made before: the same bytes, patches and code lead to the same ones.

Only for showing them. What is written is always decided anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.outcome import Decision, Plan, State
from vpatch.source.manifest import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vpatch.patch import Patch
    from vpatch.source.tree import Tree

_FIELDS = ("state", "reason", "variant", "disagreement")


class Memo:
    """What is known of some patches on a tree, in a file of `folder` that is named by all of it."""

    def __init__(
        self, folder: Path, patches: Sequence[Patch], tree: Tree, alone: Collection[str]
    ) -> None:
        pin = tree.pin
        known = {
            "code": _code(),
            "tree": [pin.tree, pin.version, pin.digest, sorted(tree.carried)],
            "patches": [[patch.id, patch.digest] for patch in patches],
            "alone": sorted(alone),
        }
        key = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]
        self._file = folder / f"{key}.json"
        self._patches = {patch.id: patch for patch in patches}
        self._tree = tree

    def recall(self) -> Plan | None:
        """The plan, without its changes and findings; None where it is not known."""
        try:
            stored = json.loads(self._file.read_bytes())
            found = tuple(
                Decision(
                    self._patches[one["patch"]],
                    State(one["state"]),
                    one["reason"],
                    variant=one["variant"],
                    disagreement=one["disagreement"],
                )
                for one in stored
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None  # never made, or cut off by a full disk: it is made again
        return Plan(self._tree.pin, found)

    def keep(self, plan: Plan) -> None:
        """Note a plan, unless findings of it are to be told, which are not kept."""
        if any(decision.findings for decision in plan.decisions):
            return
        rows = [
            {"patch": d.patch.id} | {name: getattr(d, name) for name in _FIELDS}
            for d in plan.decisions
        ]
        # Where nothing can be written, the next one takes as long.
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._file, json.dumps(rows))


@cache
def _code() -> str:
    """A digest of all that decides: vpatch itself, libcst and Python."""
    digest = hashlib.sha256(f"{sys.version} libcst {version('libcst')}".encode())
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        if "library" not in path.relative_to(package).parts:
            digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
