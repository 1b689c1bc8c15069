"""The bytes that a statement was parsed from: by them, what cannot match need not be visited.

libcst makes every node that it visits anew, in Python, and most of a large file has nothing to do
with an edit. A statement that is not visited stays the same object through all edits, so what is
known of it stays true.

Most edits of a long function look at a few of its statements. So what is in a statement is noted as
well, once somebody looks inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import libcst as cst

from vpatch.codemods.binding import bindings_of_module, bindings_of_tree
from vpatch.codemods.nodes import DEFINITIONS
from vpatch.codemods.spelling import Spellings
from vpatch.codemods.trees import BLOCKS, first_line

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence


@dataclass
class _Extent:
    """A statement, the same one as Python's own parser reads it, and the lines of the module.

    `parsed` are several statements where they share a line. `is_open` says that what is in the
    statement is noted.
    """

    statement: cst.CSTNode
    parsed: Sequence[ast.stmt]
    lines: Sequence[bytes]
    is_open: bool = False

    @cached_property
    def text(self) -> bytes:
        return b"".join(self.lines[first_line(self.parsed[0]) - 1 : self.parsed[-1].end_lineno])


class Extents:
    """What statements were parsed from. It keeps them, as it knows them by their identity."""

    def __init__(self) -> None:
        self._known: dict[int, _Extent] = {}
        self._spellings: dict[int, tuple[cst.Module, Spellings]] = {}
        self._faithful: dict[int, tuple[cst.Module, bool]] = {}

    def remember(
        self,
        module: cst.Module,
        source: bytes,
        tree: ast.Module | None,
        spellings: Spellings | None = None,
    ) -> None:
        """Note what each statement of a module was parsed from.

        `tree` is the same source as Python's own parser reads it, which knows lines; libcst does
        not. Where the two do not agree about the statements, nothing is noted of them: they are
        visited then. `spellings` are those of the whole module, if a part is left out of this one.
        """
        if tree is None:
            return
        spellings = spellings or Spellings(bindings_of_tree(tree))
        self._spellings[id(module)] = (module, spellings)
        self._note(module.body, tree.body, source.splitlines(keepends=True))

    def _note(
        self, body: Sequence[cst.CSTNode], parsed: Sequence[ast.stmt], lines: Sequence[bytes]
    ) -> None:
        for statement, same in _pairs(body, parsed):
            self._known[id(statement)] = _Extent(statement, same, lines)

    def open(self, statement: cst.CSTNode) -> None:
        """Note what each statement in the blocks of a statement was parsed from."""
        extent = self._known.get(id(statement))
        if extent is None or extent.is_open:
            return
        extent.is_open = True
        for body, parsed in _blocks(statement, extent.parsed[0]):
            self._note(body, parsed, extent.lines)

    def of_whole(self, module: cst.Module, spellings: Spellings) -> Extents:
        """The same, where a module is a part of another one, which has other spellings."""
        extents = Extents()
        extents._known, extents._faithful = self._known, self._faithful
        extents._spellings[id(module)] = (module, spellings)
        return extents

    def spellings(self, module: cst.Module) -> Spellings:
        """How a module spells what it imports."""
        if id(module) not in self._spellings:
            self._spellings[id(module)] = (module, Spellings(bindings_of_module(module)))
        return self._spellings[id(module)][1]

    def carry(self, before: cst.Module, after: cst.Module) -> None:
        """Note that a module spells its imports as it did before an edit."""
        self._spellings[id(after)] = (after, self.spellings(before))

    def is_faithful(self, module: cst.Module, source: bytes) -> bool:
        """Whether libcst writes a module as the source that it was parsed from."""
        if id(module) not in self._faithful:
            self._faithful[id(module)] = (module, module.bytes == source)
        return self._faithful[id(module)][1]

    def of(self, statement: cst.CSTNode) -> bytes | None:
        """The bytes of a statement's lines, if it is as it was parsed and they are known."""
        extent = self._known.get(id(statement))
        return extent.text if extent else None


def _pairs(
    body: Sequence[cst.CSTNode], parsed: Sequence[ast.stmt]
) -> Iterator[tuple[cst.CSTNode, Sequence[ast.stmt]]]:
    """Each statement as both read it. One line of libcst's may hold several small ones."""
    counts = [len(s.body) if isinstance(s, cst.SimpleStatementLine) else 1 for s in body]
    if sum(counts) != len(parsed):
        return
    index = 0
    for statement, count in zip(body, counts, strict=True):
        same = parsed[index : index + count]
        index += count
        if isinstance(statement, DEFINITIONS) and statement.name.value != getattr(
            same[0], "name", None
        ):
            continue
        yield statement, same


def _blocks(
    statement: object, parsed: ast.AST
) -> Iterator[tuple[Sequence[cst.CSTNode], Sequence[ast.stmt]]]:
    """The blocks of a statement, or of a part of one, as both read them."""
    for name in BLOCKS:
        block = getattr(statement, name, None)
        same: Sequence[Any] = getattr(parsed, name, ())
        if isinstance(block, (cst.Else, cst.Finally)):
            block = block.body
        match block:
            case cst.IndentedBlock():
                yield block.body, same
            case cst.If():  # an `elif`
                yield from _blocks(block, same[0])
            case [*parts] if name in {"handlers", "cases"}:
                for part, other in zip(parts, same, strict=True):
                    yield from _blocks(part, other)
