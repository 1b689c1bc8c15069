"""Where in a module an edit may look."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.nodes import DEFINITIONS, canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.codemods.match import Match

_GLOB = re.compile(r"[*?\[]")
_CHOICE = re.compile(r"\[.[^]]*\]")


@dataclass(frozen=True)
class Scope:
    """Where in a module an edit may look: within a qualified name, with limits on metavariables.

    Within a function or a class is itself and its body, and not its decorators or defaults.
    """

    within: str | None = None
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def words(self) -> frozenset[bytes]:
        """What a file must have that has anything within: the names that are no globs."""
        names = self.within.split(".") if self.within else []
        return frozenset(name.encode() for name in names if name.isidentifier())

    @property
    def pieces(self) -> frozenset[bytes]:
        """What a file must have, in whichever words, that has anything within: of the globs."""
        globs = _CHOICE.sub("*", self.within or "").split(".")
        return frozenset(
            piece.encode()
            for name in globs
            if not name.isidentifier()
            for piece in re.split(r"[*?]", name)
            if piece
        )

    @property
    def name(self) -> str | None:
        """The one definition to look within; None where that may be any, or several by a glob."""
        return None if self.within is None or _GLOB.search(self.within) else self.within

    def reaches(self, scope: Sequence[str], statement: cst.CSTNode) -> bool:
        """Whether anything inside a statement of `scope` can be within."""
        if self.name is None:
            return True
        here = ".".join(scope)
        if f"{here}.".startswith(f"{self.name}."):
            return True
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            inner = f"{here}.{statement.name.value}" if here else statement.name.value
            return f"{self.name}.".startswith(f"{inner}.")
        return not isinstance(statement, cst.SimpleStatementLine)

    def admits(
        self, scope: Sequence[str], match: Match | None, node: cst.CSTNode | None = None
    ) -> bool:
        """Whether a place in a scope is meant; `node` is the place, if it may be a definition."""
        names = [*scope, node.name.value] if isinstance(node, DEFINITIONS) else scope
        if self.within is not None and not any(
            fnmatchcase(".".join(names[: depth + 1]), self.within) for depth in range(len(names))
        ):
            return False
        if match is None or not self.where:
            return True
        texts = match.texts()
        return all(
            texts.get(name) in {canonical(text) for text in allowed}
            for name, allowed in self.where.items()
        )
