"""Put new code where a pattern matched, touching no more than what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import libcst as cst

from vpatch.codemods.match import (
    IN_TEXT,
    OPTIONAL,
    Match,
    code_of,
    is_gap,
    meaningful_fields,
    same,
    same_code,
    variable_of,
)
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
# These stand without parentheses in a few places only.
_NEARLY_ALWAYS_BRACKETED = (cst.Tuple, cst.Yield, cst.NamedExpr, cst.GeneratorExp)
_TUPLE_PARENTS = (cst.Assign, cst.Return, cst.Expr)


class CannotRewrite(Exception):
    """Code that a pattern matches, but that the new code does not fit; says why."""


def rewrite(
    pattern: cst.CSTNode,
    template: cst.CSTNode,
    node: cst.CSTNode,
    match: Match,
    parent: cst.CSTNode | None,
) -> cst.CSTNode:
    """Turn `node`, which `pattern` matched, into `template`, touching only where the two differ.

    What pattern and template have in common keeps its formatting and its comments.

    Raises:
        CannotRewrite: what `...` stands for, or what the pattern leaves out, would be lost.
    """
    if _identical(pattern, template):
        return node
    kinds = {type(pattern), type(template), type(node)}
    # Another operator binds its operands differently: they may need parentheses.
    if len(kinds) > 1 or not _same_operator(pattern, template):
        return put(pattern, template, node, match, parent)
    changes: dict[str, Any] = {}
    for name in meaningful_fields(type(pattern)):
        left, right, current = (getattr(n, name) for n in (pattern, template, node))
        if _identical(left, right):
            continue
        if name in OPTIONAL.get(type(pattern), ()) and not left and not current:
            changes[name] = _fill_field(right, match)
        elif isinstance(left, (list, tuple)):
            changed = _rewrite_sequence(left, right, current, match, node)
            if changed is None:
                return put(pattern, template, node, match, parent)
            changes[name] = changed
        elif isinstance(left, cst.CSTNode) and isinstance(right, cst.CSTNode):
            changes[name] = rewrite(left, right, current, match, node)
        else:
            return put(pattern, template, node, match, parent)
    return node.with_changes(**changes)


def gaps_correspond(pattern: object, template: object) -> bool:
    """Whether every `...` of both stands where `rewrite` keeps what it stands for."""
    if _identical(pattern, template):
        return True
    if (
        not (isinstance(pattern, cst.CSTNode) and isinstance(template, cst.CSTNode))
        or type(pattern) is not type(template)
        or not _same_operator(pattern, template)
    ):
        return not _has_gap(pattern, template)
    for name in meaningful_fields(type(pattern)):
        left, right = getattr(pattern, name), getattr(template, name)
        if isinstance(left, (list, tuple)) and (
            left or name not in OPTIONAL.get(type(pattern), ())
        ):
            if list(map(is_gap, left)) != list(map(is_gap, right)):
                return not _has_gap(pattern, template)
            if not all(map(gaps_correspond, left, right)):
                return False
        elif not gaps_correspond(left, right):
            return False
    return True


def _same_operator(left: cst.CSTNode, right: cst.CSTNode) -> bool:
    kinds = (cst.BinaryOperation, cst.BooleanOperation, cst.UnaryOperation)
    if isinstance(left, kinds) and isinstance(right, kinds):
        return type(left.operator) is type(right.operator)
    return True


def _rewrite_sequence(
    pattern: Sequence[cst.CSTNode],
    template: Sequence[cst.CSTNode],
    current: Sequence[cst.CSTNode],
    match: Match,
    parent: cst.CSTNode,
) -> Sequence[cst.CSTNode] | None:
    """Rewrite element by element, or return None where the two do not line up."""
    if list(map(is_gap, pattern)) != list(map(is_gap, template)):
        return None
    replaced: dict[int, cst.CSTNode] = {}
    for left, right in zip(pattern, template, strict=True):
        if is_gap(left):
            continue
        matched = match.paired.get(id(left))
        if matched is None:
            return None
        replaced[id(matched)] = rewrite(left, right, matched, match, parent)
    return [replaced.get(id(element), element) for element in current]


def _identical(left: object, right: object) -> bool:
    if isinstance(left, cst.BaseSuite) and isinstance(right, cst.BaseSuite):
        return same_code(left, right)
    if isinstance(left, cst.CSTNode) and isinstance(right, cst.CSTNode):
        return left.deep_equals(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_identical, left, right))
    return left == right


def _fill_field(value: Any, match: Match) -> Any:
    if isinstance(value, (list, tuple)):
        return [fill(_without_marks(item), match.bindings) for item in value]
    return fill(_without_marks(value), match.bindings)


def _without_marks(template: _Node) -> _Node:
    """The new code as it is written: `(...)` says that `...` is no gap."""

    class Unmark(cst.CSTTransformer):
        def leave_Ellipsis(
            self, original_node: cst.Ellipsis, updated_node: cst.Ellipsis
        ) -> cst.BaseExpression:
            del original_node
            return updated_node.with_changes(lpar=updated_node.lpar[1:], rpar=updated_node.rpar[1:])

    return cast("_Node", template.visit(Unmark()))


def put(
    pattern: cst.CSTNode,
    template: cst.CSTNode,
    node: cst.CSTNode,
    match: Match,
    parent: cst.CSTNode | None,
) -> cst.CSTNode:
    """The whole of `template` in place of `node`, which `pattern` matched.

    Raises:
        CannotRewrite: what `...` stands for, or what the pattern leaves out, would be lost.
    """
    if _has_gap(pattern, template):
        raise CannotRewrite(
            f"the pattern and the new code differ too much to keep what ... stands for in "
            f"{' '.join(code_of(node).split())[:60]}"
        )
    if not same(pattern, node, Match(dict(match.bindings), whole=True)):
        raise CannotRewrite(
            f"the new code would drop what the pattern leaves out (decorators, annotations, bases, "
            f"else or finally) of {' '.join(code_of(node).split())[:60]}"
        )
    if (
        isinstance(parent, cst.If)
        and isinstance(node, cst.If)
        and not isinstance(template, (cst.If, cst.Else))
    ):
        raise CannotRewrite(f"an elif can become nothing but another elif: {code_of(template)}")
    new = fill(_without_marks(template), match.bindings, parent)
    if isinstance(node, cst.BaseExpression) and isinstance(new, cst.BaseExpression) and node.lpar:
        return new.with_changes(lpar=node.lpar, rpar=node.rpar)
    if isinstance(node, cst.BaseCompoundStatement) and isinstance(new, cst.BaseCompoundStatement):
        comments = [line for line in new.leading_lines if line.comment]
        return new.with_changes(leading_lines=[*node.leading_lines, *comments])
    return new


def _has_gap(*roots: object) -> bool:
    class Search(cst.CSTVisitor):
        found = False

        def on_visit(self, node: cst.CSTNode) -> bool:
            self.found = self.found or is_gap(node)
            return not self.found

    search = Search()
    for root in roots:
        for node in root if isinstance(root, (list, tuple)) else [root]:
            if isinstance(node, cst.CSTNode):
                node.visit(search)
    return search.found


def fill(
    template: _Node, bindings: dict[str, cst.CSTNode], parent: cst.CSTNode | None = None
) -> _Node:
    """A copy of `template` with every metavariable replaced by its code.

    `parent` is what it will stand in; by default that is the argument of a call, or a block.
    """
    return cast("_Node", template.deep_clone().visit(_Fill(bindings, parent or cst.Arg)))


def check_bound(code: Sequence[cst.CSTNode], pattern: Pattern) -> None:
    """Check that the pattern binds each metavariable of some new code.

    Raises:
        PatternError: it does not.
    """
    for node in code:
        fill(node, dict.fromkeys(pattern.variables, cst.Name("_")))


class _Fill(cst.CSTTransformer):
    def __init__(
        self, bindings: dict[str, cst.CSTNode], parent: cst.CSTNode | type[cst.CSTNode]
    ) -> None:
        super().__init__()
        self.bindings = bindings
        outer = parent if isinstance(parent, type) else type(parent)
        self.parents: list[type[cst.CSTNode]] = [outer]

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(type(node))
        return True

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        self.parents.pop()
        name = variable_of(original_node)
        if name is not None:
            return fitted(self._bound(name).deep_clone(), self.parents[-1])
        if isinstance(original_node, (cst.SimpleString, cst.FormattedStringText)):
            text = IN_TEXT.sub(lambda m: code_of(self._bound(m[1])), original_node.value)
            return updated_node.with_changes(value=text)
        if isinstance(original_node, cst.Comment):
            text = IN_TEXT.sub(self._in_comment, original_node.value)
            return updated_node.with_changes(value=text)
        if len(self.parents) == 1:
            return fitted(updated_node, self.parents[-1])
        return updated_node

    def _bound(self, name: str) -> cst.CSTNode:
        if name not in self.bindings:
            raise PatternError(
                f"${name} stands in the new code, but the pattern binds no such metavariable",
                todo=f"use one of: {', '.join(f'${known}' for known in self.bindings) or 'none'}",
            )
        return self.bindings[name]

    def _in_comment(self, found: re.Match[str]) -> str:
        name = found[1]
        return code_of(self.bindings[name]) if name in self.bindings else f"${name}"


def fitted(node: _Node, parent: type[cst.CSTNode]) -> _Node:
    """The same code with parentheses, where what it is to stand in would tear it apart."""
    if not isinstance(node, cst.BaseExpression) or node.lpar:
        return node
    if isinstance(node, _NEARLY_ALWAYS_BRACKETED):
        torn = not (isinstance(node, cst.Tuple) and issubclass(parent, _TUPLE_PARENTS))
    else:
        torn = isinstance(node, _COMPOUND) and not issubclass(parent, _LOOSE_PARENTS)
    if torn or _breaks_the_line(node):
        return cast("_Node", node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))
    return node


def _breaks_the_line(node: cst.BaseExpression) -> bool:
    """Whether the code has a line break that only the brackets around it allow."""
    code = code_of(node)
    if "\n" not in code:
        return False
    try:
        return len(cst.parse_module(code).body) != 1
    except cst.ParserSyntaxError:
        return True
