"""The statements of a file as Python's own parser reads them: by them, most files need no libcst.

libcst takes ten times as long for a file. Nearly all files that have the names of a pattern have
them in different statements, and a match is a statement or a part of one.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.trees import BLOCKS, Part, first_line, parts_of
from vpatch.util.words import has_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.codemods.pattern import Pattern

# A statement, the last line of it that counts, and its text down to there.
_Text = tuple[Part, int, bytes]
_WITH_BLOCKS: dict[type[cst.CSTNode], tuple[type[ast.stmt], ...]] = {
    cst.ClassDef: (ast.ClassDef,),
    cst.For: (ast.For, ast.AsyncFor),
    cst.FunctionDef: (ast.FunctionDef, ast.AsyncFunctionDef),
    cst.If: (ast.If,),
    cst.Match: (ast.Match,),
    cst.Try: (ast.Try,),
    cst.TryStar: (ast.TryStar,),
    cst.While: (ast.While,),
    cst.With: (ast.With, ast.AsyncWith),
}


class Statements:
    """The statements of a pristine file; `tree` is the same source as Python reads it."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self._lines = source.splitlines(keepends=True)
        self._tree = tree
        self._known: dict[tuple[type[ast.stmt], ...], Sequence[_Text]] = {}

    def may_have(self, pattern: Pattern) -> bool:
        """Whether a statement has all names and strings of a pattern; False only if none has.

        A name counts in each of its spellings. Of a statement with blocks, only what is above the
        blocks counts, unless the pattern has blocks itself.
        """
        spelt = [self._spellings(name) for name in pattern.names]
        strings = pattern.needles - pattern.names
        return any(
            all(any(has_word(word, text) for word in words) for words in spelt)
            and (not strings or strings <= _strings(node, last))
            for node, last, text in self._of_kinds(_WITH_BLOCKS.get(type(pattern.node), ()))
        )

    def _of_kinds(self, kinds: tuple[type[ast.stmt], ...]) -> Sequence[_Text]:
        """Each statement of some kinds; for no kinds, all of them without their blocks."""
        if kinds not in self._known:
            nodes = [n for n in parts_of(self._tree.body) if isinstance(n, kinds) or not kinds]
            lasts = [self._last_line(node, whole=bool(kinds)) for node in nodes]
            self._known[kinds] = [
                (node, last, b"".join(self._lines[first_line(node) - 1 : last]))
                for node, last in zip(nodes, lasts, strict=True)
            ]
        return self._known[kinds]

    def _last_line(self, node: Part, *, whole: bool) -> int:
        """The last line of a statement, or of what is above its first block."""
        blocks: Iterator[Sequence[Part]] = (getattr(node, name, ()) for name in BLOCKS)
        first = next((block[0] for block in blocks if block), None)
        if first is not None and not whole:
            inner = first.pattern if isinstance(first, ast.match_case) else first
            before = self._lines[inner.lineno - 1][: inner.col_offset]
            # A block of one line follows the colon.
            return inner.lineno if before.strip() else inner.lineno - 1
        end = None if isinstance(node, ast.match_case) else node.end_lineno
        return end or first_line(node)

    def _spellings(self, word: bytes) -> frozenset[bytes]:
        """The names under which a file may know what has a name elsewhere; at least its own."""
        name = word.decode()
        names = {name, *(local for local, parts in self._imports if name in parts)}
        for alias, other in self._aliases:
            if other in names:
                names.add(alias)
        return frozenset(one.encode() for one in names)

    @cached_property
    def _imports(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Each name that an import binds, and the parts of the dotted name that it is."""
        imports: list[tuple[str, Sequence[str]]] = []
        for node in parts_of(self._tree.body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                above = node.module if isinstance(node, ast.ImportFrom) and node.module else ""
                for alias in node.names:
                    local = alias.asname or alias.name.partition(".")[0]
                    imports.append((local, f"{above}.{alias.name}".split(".")))
        return imports

    @cached_property
    def _aliases(self) -> Sequence[tuple[str, str]]:
        """The names that the module gives to other names, as `Z = Y` does, with these."""
        return [
            (alias, name)
            for node in self._tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
            for name in [node.value.id]
            for target in node.targets
            if isinstance(target, ast.Name)
            for alias in [target.id]
        ]


def _strings(root: ast.AST, last: int) -> set[bytes]:
    """The texts in some code down to a line, however they are written."""
    return {
        node.value.encode(errors="replace")
        for node in ast.walk(root)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno <= last
    }
