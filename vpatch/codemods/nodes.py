"""What the parts of a pattern and of code are: metavariables, gaps, fields with a meaning."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Node = TypeVar("_Node", bound=cst.CSTNode)
DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
# What a field of a node may have.
Space = cst.BaseParenthesizableWhitespace
Field = cst.CSTNode | Sequence[cst.CSTNode] | cst.MaybeSentinel | str | None
# How metavariables and gaps are spelt in a pattern that libcst has parsed.
PREFIX = "vpatch_mv_"
GAP_PARAMETER = "vpatch_gap"
IN_TEXT = re.compile(rf"{PREFIX}([A-Za-z_]\w*)")
# Fields of libcst nodes that hold formatting and no meaning.
_TRIVIA = frozenset(
    {"colon", "comma", "dot", "empty_lines", "end", "equal", "first_colon", "first_line", "footer"}
    | {"header", "second_colon"}
    | {"indent", "lbrace", "lbracket", "leading_lines", "lines_after_decorators", "lpar"}
    | {"posonly_ind", "rbrace", "rbracket", "rpar", "semicolon", "start", "trailing_whitespace"}
)
# Fields that a pattern may leave out.
OPTIONAL = {
    cst.FunctionDef: frozenset(["asynchronous", "decorators", "returns", "type_parameters"]),
    cst.ClassDef: frozenset(["bases", "decorators", "keywords", "type_parameters"]),
    cst.For: frozenset(["orelse"]),
    cst.If: frozenset(["orelse"]),
    cst.Param: frozenset(["annotation", "star"]),
    cst.Try: frozenset(["finalbody", "orelse"]),
    cst.TryStar: frozenset(["finalbody", "orelse"]),
    cst.While: frozenset(["orelse"]),
}

_NAMES = (cst.Name, cst.Attribute)


def code_of(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@cache
def canonical(code: str) -> str:
    """An expression in the one spelling that says nothing of its formatting."""
    try:
        return ast.unparse(ast.parse(code.strip(), mode="eval"))
    except SyntaxError:
        return code


@cache
def meaningful_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    trivia = _TRIVIA
    if issubclass(kind, cst.FormattedStringExpression):
        trivia -= {"equal"}  # f"{x=}" is not f"{x}"
    return tuple(
        f.name for f in fields(kind) if f.name not in trivia and not f.name.startswith("whitespace")
    )


def variable_of(node: object) -> str | None:
    """The name of the metavariable that a node of a pattern is, or None."""
    if isinstance(node, cst.Name) and node.value.startswith(PREFIX):
        return node.value.removeprefix(PREFIX)
    return None


class _NodeKinds(dict[type, bool]):
    """Whether objects of a class are nodes: to ask `isinstance` takes ten times as long."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, cst.CSTNode)
        return self[kind]


_IS_NODE = _NodeKinds()


@cache
def _all_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def all_nodes(root: cst.CSTNode, *, formatting: bool = False) -> Iterator[cst.CSTNode]:
    """A node and every node in it, but not in the order of the code.

    Without `formatting`, space, punctuation and comments are left out.
    """
    # libcst's own visitors and `CSTNode.children` take ten times as long.
    is_node, fields_of = _IS_NODE, _all_fields if formatting else meaningful_fields
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        for name in fields_of(type(node)):
            value = getattr(node, name)
            kind = type(value)
            if kind is tuple or kind is list:
                waiting += [item for item in value if is_node[type(item)]]
            elif is_node[kind]:
                waiting.append(value)


class _Replacing(cst.CSTTransformer):
    def __init__(self, instead: Callable[[cst.CSTNode], cst.CSTNode | None]) -> None:
        super().__init__()
        self.instead = instead

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        new = self.instead(original_node)
        return updated_node if new is None else new


def with_others(root: _Node, instead: Callable[[cst.CSTNode], cst.CSTNode | None]) -> _Node:
    """The same code with another node in place of each for which `instead` returns one."""
    return cast("_Node", root.visit(_Replacing(instead)))


def kinds_of(pattern: cst.CSTNode) -> tuple[type[cst.CSTNode], ...]:
    """The kinds of nodes that a pattern may match."""
    match pattern:
        case cst.Assign():
            return (cst.Assign, cst.AnnAssign)
        case cst.Name():
            return _NAMES
        case cst.Dict():
            return (cst.Dict, cst.Set)
        case cst.BaseString():
            return (cst.BaseString,)
        case cst.Attribute() if PREFIX not in code_of(pattern):
            return _NAMES
    return (type(pattern),)


def is_gap(node: object) -> bool:
    """Whether a node of a pattern is `...`, standing for any number of its neighbours.

    In parentheses it is Python's own.
    """
    match node:
        case cst.Arg(keyword=None, star="", value=value):
            return isinstance(value, cst.Ellipsis) and not value.lpar
        case (
            cst.Arg(star="*" | "**", value=cst.Name(value=name))
            | cst.StarredDictElement(value=cst.Name(value=name))
            | cst.Param(name=cst.Name(value=name))
        ):
            return name == GAP_PARAMETER
        case (
            cst.SimpleStatementLine(body=[cst.Expr(value=value)])
            | cst.Expr(value=value)
            | cst.Element(value=value)
            | cst.Decorator(decorator=value)
        ):
            return isinstance(value, cst.Ellipsis) and not value.lpar
    return False


def statements_of(body: cst.BaseSuite) -> Sequence[cst.CSTNode]:
    """The statements of a block, also of one on the line of its header."""
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine([statement]) for statement in body.body]
    return cast("Sequence[cst.CSTNode]", body.body)


def is_string_statement(statement: cst.CSTNode) -> bool:
    """Whether a statement is a string alone, as a docstring is."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.BaseString())]):
            return True
    return False


def behind_docstring(statements: Sequence[cst.CSTNode]) -> int:
    """The index of the first statement of a block that is not its docstring."""
    return int(bool(statements) and is_string_statement(statements[0]))


def literal_of(node: cst.BaseString) -> str | bytes | None:
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        return node.evaluated_value
    return None


def prefix_of(node: cst.FormattedString) -> frozenset[str]:
    """The letters before the quotes; an r says what a backslash in the text means."""
    return frozenset(node.start.rstrip("'\"").lower())


def between(parts: Sequence[str], text: str) -> list[str] | None:
    """Return what is between fixed parts of a text, each as far right as it can be.

    `re.fullmatch("PART(.+)PART(.+)PART", text)` says the same, but a patch with many metavariables
    in a text could keep it busy without end.
    """
    if len(parts) == 1:
        return [] if text == parts[0] else None
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last):
        return None
    start, end = len(first), len(text) - len(last)
    codes: list[str] = []
    for part in reversed(middle):
        at = text.rfind(part, start + 1, end - 1)
        if at < 0:
            return None
        codes.append(text[at + len(part) : end])
        end = at
    codes.append(text[start:end])
    return None if any(not code or "\n" in code for code in codes) else codes[::-1]
