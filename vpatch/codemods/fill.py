"""New code with the code of its metavariables, in brackets where it needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst

from vpatch.codemods.match import Match
from vpatch.codemods.names import identifiers
from vpatch.codemods.nodes import IN_TEXT, code_of, variable_of, with_others
from vpatch.codemods.pattern import PatternError

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from vpatch.codemods.pattern import Pattern

_Node = TypeVar("_Node", bound=cst.CSTNode)
_COMPOUND = (
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.UnaryOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Lambda,
    cst.Await,
)
# Parents that take a compound expression as it is, without parentheses around it.
_LOOSE_PARENTS = (
    cst.AnnAssign,
    cst.Arg,
    cst.Assign,
    cst.AugAssign,
    cst.DictElement,
    cst.Element,
    cst.Expr,
    cst.If,
    cst.Index,
    cst.Param,
    cst.Return,
    cst.While,
)
# These go without parentheses in a few places only.
_NEARLY_ALWAYS_BRACKETED = (cst.Tuple, cst.Yield, cst.NamedExpr, cst.GeneratorExp)
_TUPLE_PARENTS = (cst.Assign, cst.AssignTarget, cst.Return, cst.Expr)


class CannotRewrite(Exception):
    """Code that a pattern matches, but that the new code does not fit; says why."""


def fill(template: _Node, match: Match, parent: cst.CSTNode | None = None) -> _Node:
    """A copy of `template` with every metavariable replaced by its code.

    A name that the module of the match spells otherwise gets the module's spelling. `parent` is
    what it goes into; by default that is the argument of a call, or a block.

    Raises:
        CannotRewrite: the code of a metavariable cannot be where the template has it.
    """
    try:
        return cast("_Node", template.deep_clone().visit(_Fill(match, parent or cst.Arg)))
    except cst.CSTValidationError as error:
        raise CannotRewrite(f"the new code is not Python there: {error}") from error


def unmarked(template: _Node) -> _Node:
    """The new code as it is written: `(...)` says that `...` is not a gap."""

    def bare(node: cst.CSTNode) -> cst.CSTNode | None:
        if not isinstance(node, cst.Ellipsis):
            return None
        return node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[1:])

    return with_others(template, bare)


def check_bound(code: Sequence[cst.CSTNode], pattern: Pattern) -> None:
    """Check that the pattern binds each metavariable of some new code.

    Raises:
        PatternError: it does not.
    """
    for node in code:
        fill(node, Match(dict.fromkeys(pattern.variables, cst.Name("_"))))


class _Fill(cst.CSTTransformer):
    def __init__(self, match: Match, parent: cst.CSTNode | type[cst.CSTNode]) -> None:
        super().__init__()
        self.match = match
        self.bindings = match.bindings
        self.identifiers: set[int] = set()
        outer = parent if isinstance(parent, type) else type(parent)
        self.parents: list[type[cst.CSTNode]] = [outer]

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(type(node))
        self.identifiers.update(map(id, identifiers(node)))
        return True

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        self.parents.pop()
        name = variable_of(original_node)
        if name is not None:
            return fitted(self._binding(name).deep_clone(), self.parents[-1])
        if isinstance(original_node, cst.Name) and id(original_node) not in self.identifiers:
            own = self.match.own_name(original_node.value)
            if own is not None:
                return own.deep_clone()
        if isinstance(original_node, (cst.SimpleString, cst.FormattedStringText)):
            text = IN_TEXT.sub(lambda m: code_of(self._binding(m[1])), original_node.value)
            return updated_node.with_changes(value=text)
        if isinstance(original_node, cst.Comment):
            text = IN_TEXT.sub(self._in_comment, original_node.value)
            return updated_node.with_changes(value=text)
        if isinstance(updated_node, cst.Call):
            updated_node = _without_double_brackets(cast("cst.Call", original_node), updated_node)
        if len(self.parents) == 1:
            return fitted(updated_node, self.parents[-1])
        return updated_node

    def _binding(self, name: str) -> cst.CSTNode:
        if name not in self.bindings:
            raise PatternError(
                f"${name} is in the new code, but the pattern has no such metavariable",
                hint=f"use one of: {', '.join(f'${known}' for known in self.bindings) or 'none'}",
                code="codemods.unknown-metavariable",
            )
        return self.bindings[name]

    def _in_comment(self, match: re.Match[str]) -> str:
        name = match[1]
        return code_of(self.bindings[name]) if name in self.bindings else f"${name}"


def _without_double_brackets(template: cst.Call, call: cst.Call) -> cst.Call:
    """A call without the brackets that the code of a metavariable has as the only argument."""
    match template.args, call.args:
        case [cst.Arg(keyword=None, star="", value=variable)], [
            cst.Arg(value=cst.BaseExpression(lpar=[start], rpar=[end]) as value) as arg
        ] if variable_of(variable) is not None and not isinstance(value, _NEARLY_ALWAYS_BRACKETED):
            bare = value.with_changes(lpar=(), rpar=())
            closing = end.whitespace_before
            only = arg.with_changes(value=bare, whitespace_after_arg=closing)
            opening = start.whitespace_after
            return call.with_changes(args=[only], whitespace_before_args=opening)
    return call


def fitted(node: _Node, parent: type[cst.CSTNode]) -> _Node:
    """The same code, with parentheses where its new surroundings would tear it apart."""
    if not isinstance(node, cst.BaseExpression) or node.lpar:
        return node
    if isinstance(node, _NEARLY_ALWAYS_BRACKETED):
        torn = not (isinstance(node, cst.Tuple) and issubclass(parent, _TUPLE_PARENTS))
    else:
        torn = isinstance(node, _COMPOUND) and not issubclass(parent, _LOOSE_PARENTS)
    if torn or breaks_the_line(node):
        return cast("_Node", node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
    return node


def breaks_the_line(node: cst.BaseExpression) -> bool:
    """Whether the code has a line break that only the brackets around it allow."""
    code = code_of(node)
    if "\n" not in code:
        return False
    try:
        return len(cst.parse_module(code).body) != 1
    except cst.ParserSyntaxError:
        return True
