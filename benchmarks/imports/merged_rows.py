"""The rows of the group `merged`: each merged change imported, applied, and compared."""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version
from survival import diff_of

from imports.backport import Equality, compared, sides
from vpatch.commands.importing.request import ImportRequest
from vpatch.commands.importing.usecase import import_patches
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.trust.decision import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imports.backport import Sides
    from imports.merged import Merged
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

LEAST_CHANGES = 15
LEAST_EQUAL = 12
_LONG = 200
_LETTERS = {
    State.NEEDED: "N",
    State.UPSTREAMED: "U",
    State.ABSENT: ".",
    State.NOT_DECLARED: "D",
    State.CONFLICT: "C",
    State.BLOCKED: "B",
    State.APPLIED: "A",
    State.UNTRUSTED: "T",
}


@dataclass
class MergedRow:
    """What became of a merged change. `states` has a letter for each release, the oldest first."""

    name: str
    old: str
    new: str
    hunks: int = 0
    by_meaning: int = 0
    gives: str = ""
    states: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    equality: Equality = field(default_factory=Equality)
    failure: str = ""

    @property
    def equal(self) -> bool:
        return not self.failure and self.equality.holds

    def as_json(self) -> dict[str, Any]:
        return {"group": "merged", **vars(self), "equal": self.equal}


@dataclass(frozen=True)
class MergedChange:
    """A change that was imported, with its row and its patch."""

    merged: Merged
    row: MergedRow
    files: Sides
    patch: Patch


def merged_rows(
    context: Context,
    changes: Sequence[Merged],
    on_older: Callable[[MergedChange, Tree, Decision], None] = lambda *_: None,
) -> list[MergedRow]:
    """Import each change at the release that has it, and apply it to the one before.

    `on_older` gets the decision on each release before the one that has the change.
    """
    rows = [MergedRow(change.name, change.old, change.new) for change in changes]
    imported: list[MergedChange] = []
    for change, row in zip(changes, rows, strict=True):
        found = _imported(context, change, row)
        print(f"imported {row.name}", file=sys.stderr)
        imported += [found] if found is not None else []
    for version in context.releases():
        with context.tree(parse_vllm(version)) as tree:
            for each in imported:
                decision = _decide(context, each, version, tree)
                if Version(version) < Version(each.merged.new):
                    on_older(each, tree, decision)
        print(f"tried {version}", file=sys.stderr)
    return rows


def _imported(context: Context, change: Merged, row: MergedRow) -> MergedChange | None:
    """Import the diff of the newer release and the same without the change."""
    folder = Path(tempfile.mkdtemp(prefix="vpatch-import-"))
    with (
        context.tree(parse_vllm(change.old)) as older,
        context.tree(parse_vllm(change.new)) as newer,
    ):
        files = sides(change, older, newer)
    file = folder / f"{re.sub(r'[^a-z0-9]+', '-', change.name.lower()).strip('-')}.diff"
    file.write_bytes(diff_of(files.without, files.newer))
    request = ImportRequest(file, change.new, kind="diff", patch_id="imported", releases="all")
    try:
        (made,) = import_patches(context, request, folder)
    except VpatchError as error:
        row.failure = str(error)
        return None
    counts = made.draft.counts
    row.hunks, row.by_meaning, row.kinds = counts.python, counts.by_meaning, counts.kinds
    row.gives = made.proof.gives
    if made.upstreamed_in is None:
        row.failure = f"not recognised as a part of {row.new}"
    elif made.unrecognised is not None:
        row.failure = f"{made.unrecognised.state} in {row.new}, which has it"
    return MergedChange(change, row, files, load_patch(made.folder, NOTHING))


def _decide(context: Context, change: MergedChange, version: str, tree: Tree) -> Decision:
    """Note the state in a release, and compare what the patch makes of the older one."""
    row = change.row
    (decision,) = plan(
        [change.patch], tree, findings_for="none", answers=context.answers, shapes=False
    ).decisions
    row.states += _LETTERS[decision.state]
    if version != change.merged.old:
        return decision
    if decision.state is State.NEEDED:
        files = {path: each.after for path, each in decision.changes.items()}
        row.equality = compared(change.files, files)
    else:
        row.failure = f"{decision.state} in {version}: {decision.reason}"
    return decision


def show_merged(rows: Sequence[MergedRow]) -> None:
    head = ["change", "to", "hunks", "by meaning", "gives", "states in the releases"]
    table = [[*head, "equal", "as upstream", "files with the same bytes"]]
    for row in rows:
        found = row.equality
        states = [f"{found.equal} of {found.touched}", str(found.as_upstream)]
        counts = [str(row.hunks), str(row.by_meaning), row.gives, row.states]
        table.append([row.name, row.old, *counts, *states, f"{found.same_bytes} of {found.files}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        for why in [row.failure] if row.failure else row.equality.why:
            print(f"{row.name}: not equal: {why[:_LONG]}")
    equal = sum(row.equal for row in rows)
    goal = f"at least {LEAST_EQUAL} of at least {LEAST_CHANGES}"
    print(f"equal: {equal} of {len(rows)}, {goal}: {'met' if met(rows) else 'not met'}")


def met(rows: Sequence[MergedRow]) -> bool:
    return len(rows) >= LEAST_CHANGES and sum(row.equal for row in rows) >= LEAST_EQUAL
