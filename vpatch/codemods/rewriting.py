"""Put new code where a pattern matched, touching no more than what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from vpatch.codemods.alike import as_set, is_any_braces
from vpatch.codemods.correspond import has_gap, identical, kept_part, same_operator
from vpatch.codemods.entries import LITERALS, EntryLine
from vpatch.codemods.fill import CannotRewrite, fill, fitted, unmarked
from vpatch.codemods.layout import LayoutLine, opening_of
from vpatch.codemods.match import same
from vpatch.codemods.nodes import OPTIONAL, PREFIX, Field, code_of, meaningful_fields
from vpatch.codemods.parameters import (
    from_a_row,
    in_a_row,
    sources_of,
    useless_marks,
    with_default,
    with_sign,
)
from vpatch.codemods.rows import check_said, rewrite_row

if TYPE_CHECKING:
    from vpatch.codemods.match import Match

_OPERANDS = frozenset(["expression", "left", "right"])


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
    if is_any_braces(pattern) and isinstance(template, cst.Set) and isinstance(node, cst.Set):
        pattern = as_set(pattern)
    kinds = {type(pattern), type(template), type(node)}
    # Another operator binds its operands differently: they may need parentheses.
    if (
        len(kinds) > 1
        or not same_operator(pattern, template)
        or _is_split_otherwise(pattern, node, match)
    ):
        return put(pattern, template, node, match, parent)
    try:
        if isinstance(node, cst.Parameters):
            return _with_changes(node, _parameters(pattern, template, node, match, parent))
        return _with_changes(node, _changes(pattern, template, node, match, parent))
    except _DifferTooMuchError:
        return put(pattern, template, node, match, parent)


def _is_split_otherwise(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    """Whether strings in a row are the same text as those of a pattern, in other parts."""
    if not isinstance(pattern, cst.ConcatenatedString):
        return False
    sides = ((getattr(pattern, name), getattr(node, name)) for name in ("left", "right"))
    return not all(same(*side, match.copy()) for side in sides)


class _DifferTooMuchError(Exception):
    """A pattern and new code do not line up, so that the new code has to be put there whole."""


def _changes(
    pattern: cst.CSTNode,
    template: cst.CSTNode,
    node: cst.CSTNode,
    match: Match,
    parent: cst.CSTNode | None,
) -> dict[str, Field]:
    """The fields of a node in which a pattern and new code of its kind differ.

    Raises:
        _DifferTooMuchError: the differences are not in parts of the two.
    """
    changes: dict[str, Field] = {}
    for name in meaningful_fields(type(pattern)):
        old, new, current = (getattr(n, name) for n in (pattern, template, node))
        if identical(old, new) or (isinstance(node, cst.Param) and name == "star"):
            continue
        if name in OPTIONAL.get(type(pattern), ()) and (not old or _is_none(new)):
            changes[name] = _optional(old, new, current, match)
        elif isinstance(node, LITERALS) and name == "elements" and has_gap(old):
            entries = EntryLine(node)
            _require_row(rewrite_row(old, new, entries, match, node, rewrite))
            changes |= entries.changes()
        elif isinstance(node, LITERALS) and name == "elements" and len(old) != len(new):
            raise _DifferTooMuchError  # without a gap, the layout is that of the new code
        elif isinstance(old, (list, tuple)):
            line = LayoutLine(current, opening_of(node, parent))
            changes[name] = _require_row(rewrite_row(old, new, line, match, node, rewrite))
        elif isinstance(old, cst.CSTNode) and isinstance(new, cst.CSTNode):
            changes[name] = rewrite(old, new, current, match, node)
        elif isinstance(node, cst.Param) and name == "default":
            value = None if new is None else fill(unmarked(new), match, node)
            changes |= with_default(node, cast("cst.Param", template), value)
        else:
            raise _DifferTooMuchError
    if isinstance(node, cst.Param):
        changes |= with_sign(node, cast("cst.Param", template), changes)
    return changes


def _optional(old: Any, new: Any, current: Any, match: Match) -> Any:
    """A field that the pattern or the new code leaves out."""
    if old:
        check_said(old, current, match)
        return new
    if current:
        raise _DifferTooMuchError
    return _fill_field(new, match)


def _require_row(row: list[cst.CSTNode] | None) -> list[cst.CSTNode]:
    if row is None:
        raise _DifferTooMuchError
    return row


def _parameters(
    pattern: cst.CSTNode,
    template: cst.CSTNode,
    node: cst.Parameters,
    match: Match,
    parent: cst.CSTNode | None,
) -> dict[str, Field]:
    old, new = (in_a_row(cast("cst.Parameters", each)) for each in (pattern, template))
    row = in_a_row(node)
    sources = sources_of(old, row, match.paired)
    opening = opening_of(node, parent)
    line = LayoutLine(row, opening)
    items = _require_row(rewrite_row(old, new, line, match, node, rewrite, sources=sources))
    line = LayoutLine(items, opening)
    for useless in useless_marks(cast("list[cst.Param]", items)):
        line.remove(useless)
    return from_a_row(cast("list[cst.Param]", line.elements))


def _with_annotation(
    pattern: cst.Assign, template: cst.CSTNode, node: cst.AnnAssign, match: Match
) -> cst.CSTNode:
    """Rewrite `x: T = v` by a pattern without annotation, and keep the annotation."""
    if not isinstance(template, cst.Assign) or len(template.targets) != 1 or node.value is None:
        raise CannotRewrite(f"the new code would drop the annotation of {code_of(node)[:60]}")
    old, new = pattern.targets[0].target, template.targets[0].target
    changes: dict[str, Field] = {
        "target": rewrite(old, new, node.target, match, node),
        "value": rewrite(pattern.value, template.value, node.value, match, node),
    }
    return _with_changes(node, changes)


def _is_none(field: object) -> bool:
    return field is None or field is cst.MaybeSentinel.DEFAULT


def _with_changes(node: cst.CSTNode, changes: dict[str, Field]) -> cst.CSTNode:
    if isinstance(node, cst.ClassDef) and (node.bases or node.keywords):
        args = [changes.get(name, getattr(node, name)) for name in ("bases", "keywords")]
        if not any(args):
            # Without what was in them, the brackets go too.
            changes |= {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
    if isinstance(node, cst.Call) and not changes.get("args", node.args):
        # Without arguments, nothing is on lines between the brackets; comments are looked for.
        changes["whitespace_before_args"] = cst.SimpleWhitespace("")
    try:
        return node.with_changes(**changes)
    except cst.CSTValidationError as error:
        raise CannotRewrite(f"the new code is not Python there: {error}") from error


def _fill_field(value: Any, match: Match) -> Any:
    if isinstance(value, (list, tuple)):
        return [fill(unmarked(item), match) for item in value]
    return fill(unmarked(value), match)


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
    pair = kept_part(pattern, template)
    if pair is not None:
        old, part = pair
        whole = node if old is pattern else cast("cst.Return", node).value or node
        inner = rewrite(old, part, whole, match, node)
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
        check_said(pattern, node, match)
    if (
        isinstance(parent, cst.If)
        and isinstance(node, cst.If)
        and not isinstance(template, (cst.If, cst.Else))
    ):
        raise CannotRewrite(f"an elif can become nothing but another elif: {code_of(template)}")
    new = fill(unmarked(template), replace(match, bindings=bindings), parent)
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
    changes: dict[str, Field] = {"operator": getattr(template, "operator")}  # noqa: B009 - several types have it
    for name in _OPERANDS.intersection(meaningful_fields(type(node))):
        old, new, current = (getattr(n, name) for n in (pattern, template, node))
        changes[name] = fitted(rewrite(old, new, current, match, node), type(node))
    return fitted(_with_changes(node, changes), type(parent) if parent else cst.CSTNode)
