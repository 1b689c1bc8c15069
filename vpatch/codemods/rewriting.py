"""Put new code where a pattern matched, touching no more than what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import libcst as cst

from vpatch.codemods.align import aligned
from vpatch.codemods.correspond import has_gap, identical, in_pairs, kept_part, same_operator
from vpatch.codemods.fill import fill, fitted
from vpatch.codemods.layout import LayoutLine, opening_of
from vpatch.codemods.match import Match, same
from vpatch.codemods.nodes import OPTIONAL, PREFIX, code_of, is_gap, meaningful_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPERANDS = frozenset(["expression", "left", "right"])
_Node = TypeVar("_Node", bound=cst.CSTNode)


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
        CannotRewrite: code that `...` matches, or that the pattern leaves out, would be lost.
    """
    if identical(pattern, template):
        return node
    kinds = {type(pattern), type(template), type(node)}
    # Another operator binds its operands differently: they may need parentheses.
    if len(kinds) > 1 or not same_operator(pattern, template):
        return put(pattern, template, node, match, parent)
    changes: dict[str, Any] = {}
    for name in meaningful_fields(type(pattern)):
        left, right, current = (getattr(n, name) for n in (pattern, template, node))
        if identical(left, right):
            continue
        if name in OPTIONAL.get(type(pattern), ()) and not left:
            if current:
                return put(pattern, template, node, match, parent)
            changes[name] = _fill_field(right, match)
        elif isinstance(left, (list, tuple)):
            changed = _rewrite_sequence(left, right, current, match, (node, parent))
            if changed is None:
                return put(pattern, template, node, match, parent)
            changes[name] = changed
        elif isinstance(left, cst.CSTNode) and isinstance(right, cst.CSTNode):
            changes[name] = rewrite(left, right, current, match, node)
        else:
            return put(pattern, template, node, match, parent)
    return _with_changes(node, changes)


def _with_annotation(
    pattern: cst.Assign, template: cst.CSTNode, node: cst.AnnAssign, match: Match
) -> cst.CSTNode:
    """Rewrite `x: T = v` by a pattern without annotation, and keep the annotation."""
    if not isinstance(template, cst.Assign) or len(template.targets) != 1 or node.value is None:
        raise CannotRewrite(f"the new code would drop the annotation of {code_of(node)[:60]}")
    old, new = pattern.targets[0].target, template.targets[0].target
    changes = {
        "target": rewrite(old, new, node.target, match, node),
        "value": rewrite(pattern.value, template.value, node.value, match, node),
    }
    return _with_changes(node, changes)


def _with_changes(node: cst.CSTNode, changes: dict[str, Any]) -> cst.CSTNode:
    try:
        return node.with_changes(**changes)
    except cst.CSTValidationError as error:
        raise CannotRewrite(f"the new code is not Python there: {error}") from error


def _rewrite_sequence(
    pattern: Sequence[cst.CSTNode],
    template: Sequence[cst.CSTNode],
    current: Sequence[cst.CSTNode],
    match: Match,
    parents: tuple[cst.CSTNode, cst.CSTNode | None],
) -> Sequence[cst.CSTNode] | None:
    """Rewrite element by element, or return None where the two do not line up.

    `parents` are the node that has the elements, and the one that has that node.
    """
    pairwise = in_pairs(pattern, template)
    origins = list(range(len(pattern))) if pairwise else aligned(pattern, template)
    sources = [None if is_gap(left) else match.paired.get(id(left)) for left in pattern]
    known = set(map(id, current))
    if origins is None or any(
        id(source) not in known and not is_gap(left)
        for left, source in zip(pattern, sources, strict=True)
    ):
        return None
    line = LayoutLine(current, opening_of(*parents))
    for right, i in zip(template, origins, strict=True):
        source = None if i is None else sources[i]
        if i is not None and source is not None:
            line.replace(source, rewrite(pattern[i], right, source, match, parents[0]))
    for i, source in enumerate(sources):
        if source is not None and i not in origins:
            _check_said(pattern[i], source, match)
            line.remove(source)
    for j, (right, i) in enumerate(zip(template, origins, strict=True)):
        if i is None:
            new = fill(_without_marks(right), match)
            behind, before = _neighbours(origins, j, sources)
            if isinstance(new, cst.Arg) and new.keyword is not None and None in sources:
                behind = before = None  # behind all that a gap matches
            elif not j:
                before = line.first
            line.insert(new, behind, before)
            sources, origins = [*sources, new], [*origins[:j], len(sources), *origins[j + 1 :]]
    return _apart(line.elements)


def _apart(elements: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """The same with brackets around a generator that was the only argument, and is not any more."""
    if len(elements) == 1:
        return elements
    return [
        element.with_changes(value=fitted(element.value, cst.Arg))
        if isinstance(element, cst.Arg) and isinstance(element.value, cst.GeneratorExp)
        else element
        for element in elements
    ]


def _neighbours(
    origins: Sequence[int | None], j: int, sources: Sequence[cst.CSTNode | None]
) -> tuple[cst.CSTNode | None, cst.CSTNode | None]:
    """The elements that a new one comes behind, or else before; None behind or before a gap."""
    before = origins[j - 1] if j else None
    behind = next((sources[i] for i in origins[j + 1 :] if i is not None), None)
    return None if before is None else sources[before], behind


def _fill_field(value: Any, match: Match) -> Any:
    if isinstance(value, (list, tuple)):
        return [fill(_without_marks(item), match) for item in value]
    return fill(_without_marks(value), match)


def _without_marks(template: _Node) -> _Node:
    """The new code as it is written: `(...)` says that `...` is not a gap."""

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
        CannotRewrite: code that `...` matches, or that the pattern leaves out, would be lost.
    """
    if isinstance(node, cst.AnnAssign) and isinstance(pattern, cst.Assign):
        return _with_annotation(pattern, template, node, match)
    bindings = match.bindings
    kept = kept_part(pattern, template)
    if kept is not None:
        old, part = kept
        inner = rewrite(old, part, node if old is pattern else _value_of(node), match, node)
        if old is pattern:
            inner = inner.with_changes(lpar=(), rpar=())  # the whole of it gets them
        # No metavariable has an empty name.
        template = template.deep_replace(part, cst.Name(PREFIX))
        bindings = {**bindings, "": inner}
    elif not same_operator(pattern, template) and has_gap(pattern):
        return _with_operator(pattern, template, node, match, parent)
    elif has_gap(pattern, template):
        raise CannotRewrite(
            f"the pattern and the new code differ too much to keep what ... matches in "
            f"{' '.join(code_of(node).split())[:60]}"
        )
    else:
        _check_said(pattern, node, match)
    if (
        isinstance(parent, cst.If)
        and isinstance(node, cst.If)
        and not isinstance(template, (cst.If, cst.Else))
    ):
        raise CannotRewrite(f"an elif can become nothing but another elif: {code_of(template)}")
    new = fill(_without_marks(template), replace(match, bindings=bindings), parent)
    if isinstance(node, cst.BaseExpression) and isinstance(new, cst.BaseExpression) and node.lpar:
        return new.with_changes(lpar=node.lpar, rpar=node.rpar)
    if isinstance(node, cst.BaseCompoundStatement) and isinstance(new, cst.BaseCompoundStatement):
        comments = [line for line in new.leading_lines if line.comment]
        return new.with_changes(leading_lines=[*node.leading_lines, *comments])
    return new


def _with_operator(
    pattern: cst.CSTNode,
    template: cst.CSTNode,
    node: cst.CSTNode,
    match: Match,
    parent: cst.CSTNode | None,
) -> cst.CSTNode:
    """Rewrite the operands of an operation, and take the operator of `template`."""
    changes = {"operator": getattr(template, "operator")}  # noqa: B009 - several types have it
    for name in _OPERANDS.intersection(meaningful_fields(type(node))):
        left, right, current = (getattr(n, name) for n in (pattern, template, node))
        changes[name] = fitted(rewrite(left, right, current, match, node), type(node))
    return fitted(_with_changes(node, changes), type(parent) if parent else cst.CSTNode)


def _value_of(statement: cst.CSTNode) -> cst.CSTNode:
    return cast("cst.Return", statement).value or statement


def _check_said(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> None:
    """Check that a pattern says all of a node, as the new code says nothing of the rest.

    Raises:
        CannotRewrite: it does not.
    """
    if not same(pattern, node, Match(dict(match.bindings), whole=True)):
        raise CannotRewrite(
            f"the new code would drop what the pattern leaves out (decorators, annotations, bases, "
            f"else or finally) of {' '.join(code_of(node).split())[:60]}"
        )
