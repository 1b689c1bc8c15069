"""Edits that may make a difference: what strategies propose, before anybody has run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vpatch.deriving.code import Pair
from vpatch.deriving.source_code import Definition

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping

    from vpatch.deriving.differences import CodeDifference
    from vpatch.deriving.source_code import SourceCode

Declared = dict[str, JsonValue]


@dataclass(frozen=True)
class Candidate:
    """Edits as patch.yaml has them, to be made one after the other, and files beside the patch.

    `kind` is the verb that the hunk is counted by.
    """

    kind: str
    edits: tuple[Declared, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """What edits by text find, and put in its place."""
        for edit in self.edits:
            match edit:
                case {"text": {"find": str(find), "replace": str(replacement)}}:
                    yield find, replacement


@dataclass(frozen=True)
class Case:
    """One difference of a file, for strategies."""

    path: str
    difference: CodeDifference
    before: SourceCode
    after: SourceCode

    @property
    def scope(self) -> tuple[str, ...]:
        return self.difference.scope

    def scope_of(self, node: ast.AST) -> tuple[str, ...]:
        """The definition to search for a node: one is in itself, as it is found by its name."""
        return (*self.scope, node.name) if isinstance(node, Definition) else self.scope

    @property
    def pair(self) -> Pair | None:
        """What one statement, or a header, was and is."""
        nodes = self.difference.nodes
        return None if nodes is None else Pair(*nodes, (self.before, self.after))


def within(edit: Declared, scope: tuple[str, ...]) -> Declared:
    """The same edit, limited to a definition; none means the module."""
    return {**edit, "within": ".".join(scope)} if scope else edit


def one(kind: str, edit: Declared, files: Mapping[str, bytes] | None = None) -> Candidate:
    """A candidate of one edit."""
    return Candidate(kind, (edit,), files or {})
