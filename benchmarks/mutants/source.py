"""A Python file whose syntax tree knows its bytes, and edits of spans of it."""

from __future__ import annotations

import ast
import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Span = tuple[int, int, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Source:
    """A parsed file. Spans are in bytes; a replacement is text."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(m.end() for m in re.finditer(rb"\n", self.data))]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {kid: node for node in self.nodes for kid in ast.iter_child_nodes(node)}

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._lines[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._lines[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def start_of_line(self, node: ast.AST) -> int:
        """Where the line of a statement begins, or that of its first decorator."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(d.lineno for d in decorators)])  # type: ignore[attr-defined]
        return self._lines[first - 1]

    def end_of_line(self, node: ast.AST) -> int:
        """Where the line after a statement begins."""
        end = node.end_lineno  # type: ignore[attr-defined]
        return self._lines[end] if end < len(self._lines) else len(self.data)

    def block(self, node: ast.AST) -> str:
        """The whole lines of a statement."""
        return self.data[self.start_of_line(node) : self.end_of_line(node)].decode()

    def indent(self, node: ast.AST) -> str:
        return " " * node.col_offset  # type: ignore[attr-defined]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt | None:
        found = node if isinstance(node, ast.stmt) else None
        return found or next((up for up in self.above(node) if isinstance(up, ast.stmt)), None)

    def top(self, node: ast.AST) -> ast.stmt:
        """The statement of the module that has a node."""
        chain = [node, *self.above(node)]
        return cast("ast.stmt", chain[-2])

    def definition(self, name: str) -> Scoped | None:
        """A definition by its dotted name."""
        scope: ast.AST = self.tree
        for part in name.split("."):
            kids = (n for n in ast.walk(scope) if isinstance(n, Scoped) and n is not scope)
            found = next((kid for kid in kids if kid.name == part), None)
            if found is None:
                return None
            scope = found
        return scope if isinstance(scope, Scoped) else None

    def whole_lines(self, node: ast.stmt) -> bool:
        """Whether nothing else is on a statement's lines but a comment."""
        start, end = self.span(node)
        before = self.data[self.start_of_line(node) : start].decode()
        after = self.data[end : self.end_of_line(node)].decode().strip()
        decorated = bool(getattr(node, "decorator_list", []))
        return (decorated or not before.strip()) and (not after or after.startswith("#"))

    def edited(self, spans: Iterable[Span]) -> bytes | None:
        """The bytes with spans replaced; None where they overlap."""
        made, at = [], 0
        for start, end, text in sorted(spans):
            if start < at:
                return None
            made += [self.data[at:start], text.encode()]
            at = end
        return b"".join([*made, self.data[at:]])

    def renamed(self, nodes: Iterable[ast.AST], old: str, new: str) -> list[Span] | None:
        """Spans that rename names, parameters, attributes, keywords and imports.

        Inside an f-string the syntax tree has no places, so that its whole text is looked through.
        """
        spans: dict[tuple[int, int], str] = {}
        word = re.compile(rf"\b{re.escape(old)}\b")
        for node in nodes:
            whole = next((up for up in self.above(node) if isinstance(up, ast.JoinedStr)), None)
            if whole is not None:
                fields = re.compile(r"\{[^{}]*\}")
                spans[self.span(whole)] = fields.sub(
                    lambda m: word.sub(new, m[0]), self.text(whole)
                )
                continue
            start, end = self.span(node)
            if isinstance(node, ast.Attribute):
                start = self.span(node.value)[1]
                found = list(word.finditer(self.data[start:end].decode()))
            elif isinstance(node, Scoped):
                first = node.body[0]
                end = self.span(first)[0]
                found = list(word.finditer(self.data[start:end].decode()))[:1]
            elif isinstance(node, ast.keyword | ast.arg):
                found = list(word.finditer(self.text(node)))[:1]
            else:
                found = list(word.finditer(self.text(node)))
            if not found:
                return None
            match = found[-1] if isinstance(node, ast.Attribute) else found[0]
            spans[start + match.start(), start + match.end()] = new
        return [(start, end, text) for (start, end), text in spans.items()]


@lru_cache(maxsize=128)
def parsed(data: bytes) -> Source:
    return Source(data)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below a node, and itself."""
    yield from ast.walk(node)


def own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions and classes in it."""
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, Scoped | ast.Lambda):
            left += ast.iter_child_nodes(node)
