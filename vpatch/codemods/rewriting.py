"""Put new code where a pattern matched, touching no more than what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import libcst as cst

from vpatch.codemods.align import aligned
from vpatch.codemods.fill import fill, fitted
from vpatch.codemods.layout import Line, opening_of
from vpatch.codemods.match import (
    OPTIONAL,
    Match,
    code_of,
    is_gap,
    meaningful_fields,
    same,
    same_code,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def _with_changes(node: cst.CSTNode, changes: dict[str, Any]) -> cst.CSTNode:
    try:
        return node.with_changes(**changes)
    except cst.CSTValidationError as error:
        raise CannotRewrite(f"the new code is no Python there: {error}") from error


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
            if not _gaps_in_line(left, right):
                return not _has_gap(pattern, template)
        elif not gaps_correspond(left, right):
            return False
    return True


def _gaps_in_line(pattern: Sequence[cst.CSTNode], template: Sequence[cst.CSTNode]) -> bool:
    if _in_pairs(pattern, template):
        return all(map(gaps_correspond, pattern, template))
    origins = aligned(pattern, template)
    if origins is None:
        return False
    new = [right for right, i in zip(template, origins, strict=True) if i is None]
    gone = [left for i, left in enumerate(pattern) if i not in origins]
    return not _has_gap(new, gone) and all(
        i is None or gaps_correspond(pattern[i], right)
        for right, i in zip(template, origins, strict=True)
    )


def _in_pairs(pattern: Sequence[cst.CSTNode], template: Sequence[cst.CSTNode]) -> bool:
    """Whether each element becomes the one at its place. Parameters are known by their names."""
    if list(map(is_gap, pattern)) != list(map(is_gap, template)):
        return False
    names = [[e.name.value for e in s if isinstance(e, cst.Param)] for s in (pattern, template)]
    return names[0] == names[1] or set(names[0]).isdisjoint(names[1])


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
    parents: tuple[cst.CSTNode, cst.CSTNode | None],
) -> Sequence[cst.CSTNode] | None:
    """Rewrite element by element, or return None where the two do not line up.

    `parents` are the node that has the elements, and the one that has that node.
    """
    in_pairs = _in_pairs(pattern, template)
    origins = list(range(len(pattern))) if in_pairs else aligned(pattern, template)
    sources = [None if is_gap(left) else match.paired.get(id(left)) for left in pattern]
    known = set(map(id, current))
    if origins is None or any(
        id(source) not in known and not is_gap(left)
        for left, source in zip(pattern, sources, strict=True)
    ):
        return None
    line = Line(current, opening_of(*parents))
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
            new = fill(_without_marks(right), match.bindings)
            behind, before = _neighbours(origins, j, sources)
            if isinstance(new, cst.Arg) and new.keyword is not None and None in sources:
                behind = before = None  # behind all that a gap stands for
            elif not j:
                before = line.first
            line.insert(new, behind, before)
            sources, origins = [*sources, new], [*origins[:j], len(sources), *origins[j + 1 :]]
    return _apart(line.elements)


def _apart(elements: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """The same with brackets around a generator that was the only argument, and is no more."""
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
    _check_said(pattern, node, match)
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
