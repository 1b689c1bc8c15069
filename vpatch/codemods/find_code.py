"""Look for code without changing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.codemods.base import EditOutcome, PatternEdit, PatternTransformer
from vpatch.codemods.reduced import Reading, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import libcst as cst

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.match import Match
    from vpatch.codemods.pattern import Pattern


@dataclass(frozen=True)
class FindCode(PatternEdit):
    """An edit that edits nothing. Each match of `sought` in code that can run is a place.

    What a pattern of `unless` matches does not count.
    """

    unless: Sequence[Pattern] = ()

    @property
    def reading(self) -> Reading:
        patterns = (self.sought, *self.unless)
        return Reading([self.sought.names], unit_of(*patterns))

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        return _FindTransformer(self).run(module, extents)


class _FindTransformer(PatternTransformer[FindCode]):
    def edit_match(self, original: cst.CSTNode, updated: cst.CSTNode, match: Match) -> cst.CSTNode:
        excluded = (p.match(updated, self.spellings, match.bindings) for p in self.spec.unless)
        if not any(excluded):
            self.add(original, todo=False, match=match)
        return updated
