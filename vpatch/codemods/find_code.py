"""Look for code without changing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.codemods.base import EditOutcome, PatternEdit, SiteTransformer
from vpatch.codemods.nodes import kinds_of
from vpatch.codemods.reduced import Reading, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import libcst as cst

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.scope import Scope


@dataclass(frozen=True)
class FindCode(PatternEdit):
    """An edit that edits nothing. Each match of `sought` in code that can run is a place.

    What a pattern of `unless` matches does not count.
    """

    place: Scope
    unless: Sequence[Pattern] = ()

    @property
    def reading(self) -> Reading:
        patterns = (self.sought, *self.unless)
        return Reading([self.sought.names], unit_of(*patterns))

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        return _FindTransformer(self.sought, self.place, self.unless).run(module, extents)


class _FindTransformer(SiteTransformer):
    def __init__(self, pattern: Pattern, place: Scope, unless: Sequence[Pattern]) -> None:
        self.kinds = kinds_of(pattern.node)
        super().__init__(place, (pattern.names,))
        self.pattern = pattern
        self.unless = unless

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        match = self.pattern.match(updated, self.spellings)
        if match is None or not self.place.admits(self.scope, match, updated):
            return updated
        excluded = (p.match(updated, self.spellings, match.bindings) for p in self.unless)
        if not any(excluded):
            self.add(original, todo=False, match=match)
        return updated
