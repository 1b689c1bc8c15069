"""Modules without the statements that an edit does not look at.

libcst's time grows with the size of a file, and most of a file has nothing to do with an edit. What
is left out is put back, byte by byte, after the edit.
"""

from __future__ import annotations

import ast
import itertools
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import libcst as cst

from vpatch.codemods.flow import NEVER_RETURN
from vpatch.codemods.nodes import is_gap, statements_of
from vpatch.codemods.trees import STRANGE_LINES, Part, first_line, inner_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.scope import Scope
    from vpatch.codemods.spelling import Spellings

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
# The program always gets past these.
_PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Import, ast.ImportFrom, ast.Pass)
# It gets past these if it gets past what is in them.
_WITH_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Try)
_WORD_CHARACTER = re.compile(rb"\w")
_MARK = "__vpatch_left_out_{}__"
_MARK_START = _MARK.partition("{")[0].encode()

# The numbers of the first line, from 0, and of the line behind the last.
_Span = tuple[int, int]


@dataclass(frozen=True)
class Reading:
    """What of a module an edit looks at: code that has all names of one of the alternatives.

    `unit` is the smallest such code: a statement, a function, or a statement of the module with all
    that is in it. Some edits compare statements with those beside them: `neighbours` in a module
    or a class, or `everywhere`. Of these statements only definitions may be left out that have no
    name of `needed`, and, if `ifs`, an `if` that has definitions alone. With `scopes`, the edit
    looks at all of a definition that the place is within.
    """

    names: Sequence[frozenset[bytes]]
    unit: Literal["statement", "function", "module statement"] = "statement"
    compares: Literal["nothing", "neighbours", "everywhere"] = "nothing"
    needed: frozenset[str] = frozenset()
    ifs: bool = True
    scopes: bool = False


# What an edit looks at, and where.
Look = tuple[Reading, "Scope"]


def unit_of(*patterns: Pattern) -> Literal["statement", "function", "module statement"]:
    """Return the smallest code that has all of a place that one of some patterns matches."""
    nodes = [pattern.node for pattern in patterns]
    if all(isinstance(node, (cst.BaseExpression, cst.BaseSmallStatement)) for node in nodes):
        return "statement"
    # Only the body of a class goes beyond a statement of a block that is not in a function.
    if all(not isinstance(node, cst.ClassDef) or _has_any_body(node) for node in nodes):
        return "function"
    return "module statement"


def _has_any_body(node: cst.ClassDef) -> bool:
    """Whether a pattern of a class takes whatever is in the class."""
    return all(is_gap(statement) for statement in statements_of(node.body))


@dataclass(frozen=True)
class Reduced:
    """A module's text with marks in place of some lines. `left_out` are these, from the top."""

    text: bytes
    left_out: Sequence[bytes]

    def restored(self, edited: bytes) -> bytes | None:
        """Put the lines back into what became of the text; None where a mark is not as it was."""
        parts: list[bytes] = []
        rest = edited
        for number, lines in enumerate(self.left_out):
            before, mark, rest = rest.partition(_mark_of(lines, number))
            if not mark or (before and not before.endswith(b"\n")) or _MARK_START in before:
                return None
            parts += [before, lines]
        return None if _MARK_START in rest else b"".join([*parts, rest])


def is_mark(statement: cst.CSTNode) -> bool:
    """Whether a statement is a mark: what is left out among statements of a module begins there.

    With `neighbours` and without `ifs`, that is a definition.
    """
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Name(value=name))]):
            return name.encode().startswith(_MARK_START)
    return False


def _mark_of(lines: bytes, number: int) -> bytes:
    """The line in place of some lines, with the indentation of the first and the last one's end."""
    end = b"\n" if lines.endswith(b"\n") else b""
    return _indent(lines) + _MARK.format(number).encode() + end


def _indent(lines: bytes) -> bytes:
    return lines[: len(lines) - len(lines.lstrip(b" \t"))]


class Reducer:
    """A file whose statements may be left out; `tree` is the same source."""

    def __init__(self, source: bytes, tree: ast.Module, spellings: Spellings) -> None:
        self._source = source
        self._tree = tree
        self._spellings = spellings
        self._places: dict[bytes, Sequence[int]] = {}

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._source.splitlines(keepends=True)

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where each line begins."""
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def _is_plain(self) -> bool:
        """Whether lines mean the same to everybody, and no mark is in the file already."""
        return not STRANGE_LINES.search(self._source) and _MARK_START not in self._source

    def reduced(self, looks: Sequence[Look]) -> Reduced | None:
        """Leave out what no edit looks at; None where that is nothing."""
        if not self._is_plain:
            return None
        parts: list[bytes] = []
        left_out: list[bytes] = []
        line = 0
        for first, last in self._spans([_Walk(self, look) for look in looks]):
            lines = b"".join(self._lines[first:last])
            parts += [*self._lines[line:first], _mark_of(lines, len(left_out))]
            left_out.append(lines)
            line = last
        text = b"".join([*parts, *self._lines[line:]])
        # In a shorter text, another comment may be in the first two lines.
        if not left_out or STRANGE_LINES.search(text):
            return None
        return Reduced(text, left_out)

    def _spans(self, walks: Sequence[_Walk]) -> list[_Span]:
        """What may be left out, from the top; neighbours are one span."""
        spans: list[_Span] = []
        for node in self._tree.body:
            for span in _leave_out(node, (), walks, in_function=False):
                if spans and self._are_neighbours(spans[-1], span):
                    spans[-1] = (spans[-1][0], span[1])
                else:
                    spans.append(span)
        return spans

    def alternatives(self, reading: Reading) -> list[list[list[Sequence[int]]]]:
        """For each name of each alternative, where its spellings are in the file."""
        return [
            [[self._positions(word) for word in self._spellings.words(name)] for name in names]
            for names in reading.names
        ]

    def _positions(self, word: bytes) -> Sequence[int]:
        if word not in self._places:
            # To search is ten times as fast if the pattern begins with the word.
            source, pattern = self._source, re.escape(word) + rb"(?!\w)"
            starts = (match.start() for match in re.finditer(pattern, source))
            self._places[word] = [
                at for at in starts if not at or not _WORD_CHARACTER.match(source, at - 1)
            ]
        return self._places[word]

    def bounds(self, span: _Span) -> tuple[int, int]:
        """Where the text of some lines begins and ends."""
        return self._starts[span[0]], self._starts[span[1]]

    def stand_alone(self, node: ast.stmt) -> bool:
        """Whether a statement has its lines for itself, and no comment below that it may end with.

        Such a comment is further to the right than the statement, and may be a part of its block.
        """
        start, end = _span(node)
        first, last = self._lines[node.lineno - 1], self._lines[end - 1]
        behind = last[node.end_col_offset or 0 :].strip()
        return (
            not first[: node.col_offset].strip()
            and not (start and self._lines[start - 1].endswith(b"\\\n"))
            and (not behind or behind.startswith(b"#"))
            # The brackets around a decorator may begin on a line above it.
            and (start == node.lineno - 1 or self._lines[start].lstrip().startswith(b"@"))
            and len(self._indent_below(end)) <= len(_indent(first))
        )

    @cached_property
    def default_indent(self) -> str:
        """The indentation that libcst writes new blocks of the module with: that of the first."""
        for node in self._tree.body:
            for first in _first_statements(node):
                line = self._lines[first.lineno - 1]
                if not line[: first.col_offset].strip():
                    return _indent(line).decode()
        return " " * 4

    @cached_property
    def namesakes(self) -> set[int]:
        """The classes that their names alone do not tell from another one in the same block."""
        namesakes: set[int] = set()
        blocks: list[list[ast.stmt]] = [self._tree.body]
        for block in blocks:
            classes = [node for node in block if isinstance(node, ast.ClassDef)]
            names = Counter(node.name for node in classes)
            namesakes.update(id(node) for node in classes if names[node.name] > 1)
            blocks += [node.body for node in classes]
        return namesakes

    def _indent_below(self, line: int) -> bytes:
        """The indentation of the comment below a line; nothing if code comes first."""
        below = itertools.dropwhile(lambda text: not text.strip(), self._lines[line:])
        first = next(below, b"")
        return _indent(first) if first.lstrip().startswith(b"#") else b""

    def _are_neighbours(self, above: _Span, below: _Span) -> bool:
        """Whether nothing but blank lines and comments is between two spans of one block."""
        lines = self._lines[above[1] : below[0]]
        same = _indent(self._lines[above[0]]) == _indent(self._lines[below[0]])
        return same and all(not line.strip() or line.lstrip().startswith(b"#") for line in lines)


def _leave_out(
    node: Part,
    scope: tuple[str, ...],
    walks: Sequence[_Walk],
    *,
    in_function: bool,
) -> Iterator[_Span]:
    """What may be left out of a statement, as no edit looks at it."""
    inside = list(walks)
    if isinstance(node, ast.stmt):
        verdicts = [(walk, walk.verdict(node, scope, in_function=in_function)) for walk in walks]
        if any(verdict == "keep" for _, verdict in verdicts):
            return
        inside = [walk for walk, verdict in verdicts if verdict == "inside"]
        if not inside:
            yield _span(node)
            return
    if isinstance(node, _DEFINITIONS):
        scope = (*scope, node.name)
        in_function = in_function or isinstance(node, _FUNCTIONS)
    for inner in inner_parts(node):
        yield from _leave_out(inner, scope, inside, in_function=in_function)


class _Walk:
    """What one edit looks at in a file."""

    def __init__(self, file: Reducer, look: Look) -> None:
        self._file = file
        self._reading, self._place = look
        self._words = file.alternatives(self._reading)

    def verdict(
        self, node: ast.stmt, scope: tuple[str, ...], *, in_function: bool
    ) -> Literal["go", "keep", "inside"]:
        """Whether a statement may go, has to be kept as it is, or may have parts that go."""
        has = self._has(_span(node)) and self._may_reach(node, scope)
        if in_function:
            if not has and _is_passed(node) and self._file.stand_alone(node):
                return "go"
            return "inside" if next(inner_parts(node), None) else "keep"
        if not has and self._may_go(node, scope):
            return "go"
        is_whole = (has and self._reading.unit == "module statement") or self._is_scope(node, scope)
        if isinstance(node, ast.ClassDef):
            is_whole |= node.name in self._reading.needed
            return "keep" if is_whole and not self._is_above(node, scope) else "inside"
        if is_whole:
            return "keep"
        small = self._reading.unit == "statement" and self._reading.compares != "everywhere"
        return "inside" if has and small and isinstance(node, _FUNCTIONS) else "keep"

    def _may_go(self, node: ast.stmt, scope: tuple[str, ...]) -> bool:
        """Whether a statement that lacks the names may be left out of the module or a class."""
        if not self._file.stand_alone(node) or id(node) in self._file.namesakes:
            return False
        if self._is_scope(node, scope):
            return False
        if self._reading.compares != "nothing":
            is_if = self._reading.ifs and _has_only_definitions(node)
            is_needed = not self._reading.needed.isdisjoint(names[-1] for names in _names(node))
            return (isinstance(node, _DEFINITIONS) or is_if) and not is_needed
        return _is_passed(node)

    def _may_reach(self, node: ast.stmt, scope: tuple[str, ...]) -> bool:
        """Whether the edit may look at a place in a statement of the module or a class."""
        within = self._place.name
        here = ".".join([*scope, node.name] if isinstance(node, _DEFINITIONS) else scope)
        if within is None or f"{here}.".startswith(f"{within}."):
            return True
        is_compound = next(inner_parts(node), None) is not None
        return self._is_above(node, scope) if isinstance(node, _DEFINITIONS) else is_compound

    def _is_above(self, node: ast.stmt, scope: tuple[str, ...]) -> bool:
        """Whether all that the edit looks at is in a definition of a definition."""
        within = self._place.name
        here = (*scope, node.name) if isinstance(node, _DEFINITIONS) else ()
        return bool(here) and within is not None and within.startswith(".".join([*here, ""]))

    def _is_scope(self, node: ast.stmt, scope: tuple[str, ...]) -> bool:
        """Whether the edit looks at a definition by its name, or at one in it."""
        if not self._reading.scopes or self._place.within is None:
            return False
        return any(self._place.admits((*scope, *names), None) for names in _names(node))

    def _has(self, span: _Span) -> bool:
        """Whether some lines have all names of an alternative."""
        begin, end = self._file.bounds(span)
        return any(
            all(any(_is_any_in(places, begin, end) for places in spelt) for spelt in alternative)
            for alternative in self._words
        )


def _is_any_in(places: Sequence[int], begin: int, end: int) -> bool:
    index = bisect_left(places, begin)
    return index < len(places) and places[index] < end


def _span(node: ast.stmt) -> _Span:
    return first_line(node) - 1, node.end_lineno or 0


def _first_statements(node: ast.AST) -> Iterator[ast.stmt | ast.pattern]:
    """The statements and cases in a statement, in the order of their lines."""
    for inner in inner_parts(node):
        if isinstance(inner, ast.stmt):
            yield inner
        elif isinstance(inner, ast.match_case):
            yield inner.pattern
        yield from _first_statements(inner)


def _is_passed(node: ast.AST) -> bool:
    """Whether the program always gets past a statement; see `flow`."""
    if isinstance(node, (*_DEFINITIONS, *_PLAIN)):
        return True
    if isinstance(node, ast.Expr):
        # Whether a call returns is told by its name.
        return not isinstance(node.value, ast.Call) or _full_name(node.value) not in NEVER_RETURN
    if isinstance(node, (*_WITH_BLOCKS, ast.ExceptHandler)):
        return all(map(_is_passed, inner_parts(node)))
    return False


def _full_name(node: ast.AST) -> str | None:
    """The name of what is called, as libcst tells it: without arguments and indices."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_full_name(value)}.{name}"
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _full_name(inner)
    return None


def _has_only_definitions(node: ast.stmt) -> bool:
    if not isinstance(node, ast.If):
        return False
    inner = (*node.body, *node.orelse)
    return all(isinstance(one, _DEFINITIONS) or _has_only_definitions(one) for one in inner)


def _names(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """The qualified names of a definition, and of those in it, from here on."""
    own = (node.name,) if isinstance(node, _DEFINITIONS) else ()
    if own:
        yield own
    for inner in inner_parts(node):
        yield from ((*own, *names) for names in _names(inner))
