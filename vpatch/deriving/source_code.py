"""A Python file as statements with their lines: what two versions of it are compared by."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.codemods import nesting
from vpatch.codemods.nesting import NestedTooDeeplyError

if TYPE_CHECKING:
    from collections.abc import Mapping

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
# A line, counted from 1, and a column in bytes.
Position = tuple[int, int]
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Statement:
    """A statement of a block. Lines count from 0.

    `first` is the line below the statement before it: comments and blank lines above belong to
    this one. `top` is the first line of code, decorators included, and `end` is behind the last.
    """

    node: ast.stmt
    first: int
    top: int
    end: int
    # For a compound statement, its headers and blocks in turn.
    parts: tuple[HeadedBlock, ...] = ()
    # It is on a line with others, so that its lines are not its own.
    shares_line: bool = False

    @property
    def name(self) -> str | None:
        """The name of a function or class."""
        return self.node.name if isinstance(self.node, Definition) else None


@dataclass(frozen=True)
class HeadedBlock:
    """A header line, as of `if` or `else`, from `start` to `body.first`, and its block.

    `owner` is the node that the header is of: an `elif` has one of its own.
    """

    owner: ast.AST
    start: int
    body: Block


@dataclass(frozen=True)
class Block:
    """The statements of a block; `scope` is the qualified name of the definition it is in.

    `owner` is the statement that has the block, None for the module.
    """

    statements: tuple[Statement, ...]
    scope: tuple[str, ...]
    first: int
    owner: ast.AST | None = None
    # Whether the scope is a function, and not a class or the module.
    in_function: bool = False


@dataclass(frozen=True)
class SourceCode:
    """A parsed file.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """

    content: bytes
    lines: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        text = self.content.decode()
        # Not splitlines(): to Python's parser, a separator of Unicode ends no line.
        object.__setattr__(self, "lines", tuple(_LINE.findall(text)))
        if "\r" in text or "\f" in text:
            raise ValueError("it has line ends other than a line feed")
        _ = self.block

    @cached_property
    def _tree(self) -> ast.Module:
        return parsed(self.content)

    @cached_property
    def block(self) -> Block:
        return self._block(self._tree.body, (), 0, None, in_function=False)

    def lines_of(self, first: int, end: int) -> str:
        return "".join(self.lines[first:end])

    def code(self, node: ast.AST) -> str:
        """The code of an expression or statement, without what is in front of it in its line."""
        return self.between(*bounds_of(node))

    def between(self, start: Position, end: Position) -> str:
        """The code from one position to another."""
        lines = [line.encode() for line in self.lines[start[0] - 1 : end[0]]]
        lines[-1] = lines[-1][: end[1]]
        lines[0] = lines[0][start[1] :]
        return b"".join(lines).decode()

    def in_brackets(self, node: ast.AST) -> str | None:
        """The code of an expression with the parentheses right around it; None without any."""
        start, end = bounds_of(node)
        above, below = self.between((1, 0), start), self.between(end, self._end)
        opening, closing = above.rstrip(), below.lstrip()
        if not (opening.endswith("(") and closing.startswith(")")):
            return None
        before = above[len(opening) - 1 :]
        behind = below[: len(below) - len(closing) + 1]
        return f"{before}{self.code(node)}{behind}"

    @cached_property
    def _end(self) -> Position:
        return len(self.lines), len(self.lines[-1].encode())

    def indent_of(self, node: ast.AST) -> int:
        """The column at which the statement of a node begins."""
        line: int = node.lineno  # type: ignore[attr-defined]
        return self._indents.get(line, 0)

    @cached_property
    def _indents(self) -> Mapping[int, int]:
        indents: dict[int, int] = {}
        # Statements come before those that are in them.
        for node in ast.walk(self._tree):
            if isinstance(node, (ast.stmt, ast.ExceptHandler)):
                indents.update(
                    dict.fromkeys(
                        range(top_of(node) + 1, (node.end_lineno or 0) + 1), node.col_offset
                    )
                )
        return indents

    def _block(
        self,
        nodes: list[ast.stmt],
        scope: tuple[str, ...],
        first: int,
        owner: ast.AST | None,
        *,
        in_function: bool,
    ) -> Block:
        statements: list[Statement] = []
        position = first
        for index, node in enumerate(nodes):
            top = top_of(node)
            stop = node.end_lineno or top + 1
            follows = nodes[index + 1] if index + 1 < len(nodes) else None
            shares = position > top or (follows is not None and top_of(follows) < stop)
            shares |= self.lines[top][: _column(node)].strip() != ""
            parts = () if shares else tuple(self._parts(node, scope, in_function=in_function))
            statements.append(Statement(node, min(position, top), top, stop, parts, shares))
            position = stop
        return Block(tuple(statements), scope, first, owner, in_function)

    def _parts(
        self, node: ast.stmt, scope: tuple[str, ...], *, in_function: bool
    ) -> list[HeadedBlock]:
        inner = (*scope, node.name) if isinstance(node, Definition) else scope
        is_function = isinstance(node, Function) or (
            in_function and not isinstance(node, ast.ClassDef)
        )
        blocks: list[HeadedBlock] = []
        start = top_of(node)
        for owner, body in _bodies(node):
            top = top_of(body[0])
            first = self._behind_header(top)
            if first <= start or self.lines[top][: _column(body[0])].strip():
                return []  # on the line of its header
            block = self._block(body, inner, first, owner, in_function=is_function)
            blocks.append(HeadedBlock(owner, start, block))
            start = body[-1].end_lineno or top + 1
        return blocks

    def _behind_header(self, top: int) -> int:
        """The line behind the header of the block whose first statement begins at `top`."""
        while top > 0 and self.lines[top - 1].strip()[:1] in {"", "#"}:
            top -= 1
        return top


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a string alone, as a docstring is."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def parsed(source: str | bytes) -> ast.Module:
    """Parse code without warnings about its escapes and comparisons.

    Raises:
        SyntaxError, ValueError: it is not Python, or is nested too deeply.
    """
    try:
        return nesting.parsed(source)
    except NestedTooDeeplyError as error:
        raise ValueError(str(error)) from error


def parsed_if_python(source: str | bytes) -> ast.Module:
    """Parse code as `parsed` does; what is not Python is a module without statements."""
    try:
        return parsed(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def bounds_of(node: ast.AST) -> tuple[Position, Position]:
    """Where the code of an expression or statement begins and ends."""
    start = node.lineno, node.col_offset  # type: ignore[attr-defined]
    return start, (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def top_of(node: ast.stmt | ast.ExceptHandler) -> int:
    """The first line of a statement from 0, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)]) - 1


def _column(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    # The @ is in front of a decorator's expression.
    return decorators[0].col_offset - 1 if decorators else node.col_offset


def _bodies(node: ast.AST) -> list[tuple[ast.AST, list[ast.stmt]]]:
    """The blocks of a statement in the order of the file, each with the node of its header."""
    bodies: list[tuple[ast.AST, list[ast.stmt]]] = []
    if isinstance(node, ast.Match):
        return [(case, case.body) for case in node.cases]
    if getattr(node, "body", None) and isinstance(node, ast.stmt):
        bodies.append((node, node.body))  # type: ignore[attr-defined]
    bodies += [(handler, handler.body) for handler in getattr(node, "handlers", [])]
    orelse = getattr(node, "orelse", [])
    match node, orelse:
        case ast.If(col_offset=column), [ast.If() as inner] if inner.col_offset == column:
            bodies += _bodies(inner)  # an `elif`
        case _ if orelse:
            bodies.append((node, orelse))
    if getattr(node, "finalbody", []):
        bodies.append((node, node.finalbody))  # type: ignore[attr-defined]
    return bodies
