"""The bytes that a statement was parsed from: by them, what cannot match need not be visited.

libcst makes every node that it visits anew, in Python, and most of a large file has nothing to do
with an edit. A statement that is not visited stays the same object through all edits, so what is
known of it stays true.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.binding import bindings_of_module, bindings_of_tree
from vpatch.codemods.nodes import DEFINITIONS
from vpatch.codemods.spelling import Spellings
from vpatch.codemods.trees import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Extents:
    """What statements were parsed from. It keeps them, as it knows them by their identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[cst.CSTNode, bytes]] = {}
        self._spellings: dict[int, tuple[cst.Module, Spellings]] = {}

    def remember(
        self,
        module: cst.Module,
        source: bytes,
        tree: ast.Module | None,
        spellings: Spellings | None = None,
    ) -> None:
        """Note what each statement of a module, and each of its classes, was parsed from.

        `tree` is the same source as Python's own parser reads it, which knows lines; libcst does
        not. Where the two do not agree about the statements, nothing is noted of them: they are
        visited then. `spellings` are those of the whole module, if a part is left out of this one.
        """
        if tree is None:
            return
        spellings = spellings or Spellings(bindings_of_tree(tree))
        self._spellings[id(module)] = (module, spellings)
        lines = source.splitlines(keepends=True)
        for statement, text in _pairs(module.body, tree.body, lines):
            self._known[id(statement)] = (statement, text)

    def spellings(self, module: cst.Module) -> Spellings:
        """How a module spells what it imports."""
        if id(module) not in self._spellings:
            self._spellings[id(module)] = (module, Spellings(bindings_of_module(module)))
        return self._spellings[id(module)][1]

    def carry(self, before: cst.Module, after: cst.Module) -> None:
        """Note that a module spells its imports as it did before an edit."""
        self._spellings[id(after)] = (after, self.spellings(before))

    def of(self, statement: cst.CSTNode) -> bytes | None:
        """The bytes of a statement's lines, if it is as it was parsed and they are known."""
        known = self._known.get(id(statement))
        return known[1] if known else None


def _pairs(
    body: Sequence[cst.CSTNode], parsed: Sequence[ast.stmt], lines: Sequence[bytes]
) -> Iterator[tuple[cst.CSTNode, bytes]]:
    """Each statement with its lines. One line of libcst's may hold several small ones."""
    counts = [len(s.body) if isinstance(s, cst.SimpleStatementLine) else 1 for s in body]
    if sum(counts) != len(parsed):
        return
    index = 0
    for statement, count in zip(body, counts, strict=True):
        first, last = parsed[index], parsed[index + count - 1]
        index += count
        if isinstance(statement, DEFINITIONS) and statement.name.value != getattr(
            first, "name", None
        ):
            continue
        yield statement, b"".join(lines[first_line(first) - 1 : last.end_lineno])
        if (
            isinstance(statement, cst.ClassDef)
            and isinstance(first, ast.ClassDef)
            and isinstance(statement.body, cst.IndentedBlock)
        ):
            yield from _pairs(statement.body.body, first.body, lines)
