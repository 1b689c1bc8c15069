"""One statement that became several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case
from vpatch.deriving.code import Pair
from vpatch.deriving.strategies.inserts import insert
from vpatch.deriving.strategies.rewrites import rewrites

if TYPE_CHECKING:
    from collections.abc import Iterator


def one_into_several(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` as the last or the first of them, and an `insert` of the others."""
    difference = case.difference
    if len(difference.old) != 1 or len(difference.new) < 2:  # noqa: PLR2004 - several
        return
    old, new = difference.old[0], difference.new
    above, below = difference.neighbours()
    for successor, others, places in (
        (new[-1], new[:-1], (above, new[-1])),
        (new[0], new[1:], (new[0], below)),
    ):
        pair = Pair(old.node, successor.node, (case.before, case.after))
        for edit in rewrites(case, pair):
            for candidate in insert(case, others, places):
                yield Candidate("rewrite", (edit, *candidate.edits), candidate.files)
