"""Where the `...` of new code come from in a pattern, so that the code they match is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.align import aligned
from vpatch.codemods.alike import as_set, is_any_braces
from vpatch.codemods.match import same_code
from vpatch.codemods.nodes import OPTIONAL, all_nodes, is_gap, meaningful_fields
from vpatch.codemods.parameters import MARKS, in_a_row

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPERATIONS = (cst.BinaryOperation, cst.BooleanOperation, cst.UnaryOperation)
_WITH_VALUE = (cst.AnnAssign, cst.Assign, cst.AugAssign, cst.Expr, cst.Return)


def gaps_correspond(pattern: object, template: object) -> bool:
    """Whether every `...` of both is where `rewrite` keeps the code that it matches."""
    if identical(pattern, template):
        return True
    if is_any_braces(pattern) and isinstance(template, cst.Set):
        pattern = as_set(pattern)
    if not (isinstance(pattern, cst.CSTNode) and isinstance(template, cst.CSTNode)) or type(
        pattern
    ) is not type(template):
        return not has_gap(pattern, template) or kept_part(pattern, template) is not None
    if isinstance(pattern, cst.Parameters) and isinstance(template, cst.Parameters):
        return _gaps_in_line(in_a_row(pattern), in_a_row(template))
    for name in meaningful_fields(type(pattern)):
        one, other = getattr(pattern, name), getattr(template, name)
        if isinstance(one, (list, tuple)) and (one or name not in OPTIONAL.get(type(pattern), ())):
            if not _gaps_in_line(one, other):
                return not has_gap(pattern, template) or kept_part(pattern, template) is not None
        elif not gaps_correspond(one, other):
            return False
    return True


def _gaps_in_line(pattern: Sequence[cst.CSTNode], template: Sequence[cst.CSTNode]) -> bool:
    if in_pairs(pattern, template):
        return all(map(gaps_correspond, pattern, template))
    origins = aligned(pattern, template)
    if origins is None:
        return False
    new = [right for right, i in zip(template, origins, strict=True) if i is None]
    return not has_gap(new) and all(
        i is None or gaps_correspond(pattern[i], right)
        for right, i in zip(template, origins, strict=True)
    )


def in_pairs(pattern: Sequence[cst.CSTNode], template: Sequence[cst.CSTNode]) -> bool:
    """Whether each element becomes the one at its place. Parameters are known by their names."""
    if list(map(is_gap, pattern)) != list(map(is_gap, template)):
        return False
    names = [[e.name.value for e in s if isinstance(e, cst.Param)] for s in (pattern, template)]
    if not MARKS.isdisjoint(names[0] + names[1]):
        return names[0] == names[1]
    return names[0] == names[1] or set(names[0]).isdisjoint(names[1])


def same_operator(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    if isinstance(one, _OPERATIONS) and isinstance(other, _OPERATIONS):
        return type(one.operator) is type(other.operator)
    return True


def identical(one: object, other: object) -> bool:
    if isinstance(one, cst.BaseSuite) and isinstance(other, cst.BaseSuite):
        return same_code(one, other)
    if isinstance(one, cst.CSTNode) and isinstance(other, cst.CSTNode):
        return one.deep_equals(other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(identical, one, other))
    return one == other


def has_gap(*roots: object) -> bool:
    return bool(_count_gaps(*roots))


def _count_gaps(*roots: object) -> int:
    class Count(cst.CSTVisitor):
        gaps = 0

        def on_visit(self, node: cst.CSTNode) -> bool:
            is_one = is_gap(node)
            self.gaps += is_one
            return not is_one

    count = Count()
    for root in roots:
        for node in root if isinstance(root, (list, tuple)) else [root]:
            if isinstance(node, cst.CSTNode):
                node.visit(count)
    return count.gaps


def kept_part(
    pattern: object, template: object
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the expressions of both that have all their `...`, if the rest of both has none.

    That of the pattern is all of it, or the value of a simple statement.
    """
    parts: Sequence[cst.BaseExpression | None]
    if isinstance(pattern, _WITH_VALUE) and isinstance(template, _WITH_VALUE):
        old, parts = pattern.value, [template.value]
    elif isinstance(pattern, cst.BaseExpression) and isinstance(template, cst.BaseExpression):
        # A node comes before those that are in it: the inner ones are first here.
        inside = [n for n in all_nodes(template) if isinstance(n, cst.BaseExpression)][:0:-1]
        old, parts = pattern, inside
    else:
        return None
    wanted = _count_gaps(pattern)
    if old is None or not wanted or _count_gaps(old) != wanted or _count_gaps(template) != wanted:
        return None
    for new in parts:
        if new is not None and _count_gaps(new) == wanted and gaps_correspond(old, new):
            return old, new
    return None
