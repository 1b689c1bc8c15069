"""The parameters of a function in a row, as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.fill import CannotRewrite
from vpatch.codemods.nodes import Field, is_gap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# `/` and `*` in a row of parameters.
_SLASH, _STAR = "vpatch_slash", "vpatch_star"
MARKS = frozenset({_SLASH, _STAR})
_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def in_a_row(parameters: cst.Parameters) -> list[cst.Param]:
    """All parameters in their order.

    `/` and `*` are parameters with the names in `MARKS`. libcst's own nodes for them cannot be laid
    out as parameters are, and no `*` of its can be the last of a row for a while.
    """
    items = [
        *parameters.posonly_params,
        parameters.posonly_ind,
        *parameters.params,
        parameters.star_arg,
        *parameters.kwonly_params,
        parameters.star_kwarg,
    ]
    return [_as_parameter(item) for item in items if isinstance(item, cst.CSTNode)]


def _as_parameter(item: cst.Param | cst.ParamSlash | cst.ParamStar) -> cst.Param:
    match item:
        case cst.ParamSlash():
            space = item.whitespace_after
            name = cst.Name(_SLASH)
            return cst.Param(name, star="", comma=item.comma, whitespace_after_param=space)
        case cst.ParamStar():
            return cst.Param(cst.Name(_STAR), star="", comma=item.comma)
    return item


def from_a_row(items: Sequence[cst.Param]) -> dict[str, Field]:
    """The fields of the parameters that such a row is.

    Raises:
        CannotRewrite: Python takes no such row, as one with `*args` behind `*`.
    """
    _check(items)
    none = cst.MaybeSentinel.DEFAULT
    row: list[cst.Param] = []
    fields: dict[str, Field] = {"params": row, "star_arg": none, "kwonly_params": []}
    fields |= {"posonly_params": [], "posonly_ind": none, "star_kwarg": None}
    for item in items:
        if _is(item, _SLASH):
            slash = cst.ParamSlash(item.comma, item.whitespace_after_param)
            fields |= {"posonly_params": row, "posonly_ind": slash, "params": (row := [])}
        elif _is(item, _STAR) or item.star == "*":
            fields["star_arg"] = cst.ParamStar(_comma(item)) if _is(item, _STAR) else item
            fields["kwonly_params"] = row = []
        elif item.star == "**":
            fields["star_kwarg"] = item
        else:
            row.append(item)
    return fields


def _check(items: Sequence[cst.Param]) -> None:
    signs = {_SLASH: "/", _STAR: "*"}
    names = (f"{item.star}{signs.get(item.name.value, item.name.value)}" for item in items)
    row = ", ".join(f"{n}=0" if i.default else n for n, i in zip(names, items, strict=True))
    try:
        compile(f"def f({row}): 0", "", "exec")
    except SyntaxError as error:
        raise CannotRewrite(f"the new code is not Python there: ({row}): {error.msg}") from error


def _comma(item: cst.Param) -> cst.Comma:
    return item.comma if isinstance(item.comma, cst.Comma) else cst.Comma()


def useless_marks(items: Sequence[cst.Param]) -> list[cst.Param]:
    """The marks that say nothing.

    These are a `/` with nothing before it or with another one behind it, and a `*` with no
    parameter behind it or with another one before it.
    """
    return [
        item
        for index, item in enumerate(items)
        if item.name.value in MARKS and _is_useless(item, items[:index], items[index + 1 :])
    ]


def _is_useless(mark: cst.Param, above: Sequence[cst.Param], behind: Sequence[cst.Param]) -> bool:
    if _is(mark, _SLASH):
        return not above or any(_is(one, _SLASH) for one in behind)
    has_keyword = any(not one.star and one.name.value not in MARKS for one in behind)
    return not has_keyword or any(one.star or _is(one, _STAR) for one in above)


def sources_of(
    pattern: Sequence[cst.Param], row: Sequence[cst.Param], paired: Mapping[int, cst.CSTNode]
) -> list[cst.CSTNode | None]:
    """What each item of a pattern's row matched in the row of some parameters; None for a gap."""
    own = {one.star or one.name.value: one for one in row if one.star or one.name.value in MARKS}
    # A row has one `*` or one `*args`.
    return [
        None if is_gap(item) else paired.get(id(item), own.get(str(item.star) or item.name.value))
        for item in pattern
    ]


def _is(item: cst.Param, mark: str) -> bool:
    return item.name.value == mark


def with_default(
    node: cst.Param, template: cst.Param, default: cst.BaseExpression | None
) -> dict[str, Field]:
    """The fields of a parameter that gets a default, or loses the one that it has."""
    if default is None:
        return {"default": None, "equal": cst.MaybeSentinel.DEFAULT}
    annotated = node.annotation is not None or template.annotation is not None
    return {"default": default, "equal": cst.AssignEqual() if annotated else _TIGHT}


def with_sign(
    node: cst.Param, template: cst.Param, changes: Mapping[str, Field]
) -> dict[str, Field]:
    """The star of the new code, and the sign before the default.

    The sign has spaces around it once there is an annotation.
    """
    signs: dict[str, Field] = {"star": template.star}
    is_annotated = changes.get("annotation", node.annotation) is not None
    is_new = is_annotated != (node.annotation is not None)
    if is_new and node.default is not None and "equal" not in changes:
        signs["equal"] = cst.AssignEqual() if is_annotated else _TIGHT
    return signs
