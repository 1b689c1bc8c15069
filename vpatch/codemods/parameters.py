"""The parameters of a function in a row, as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from vpatch.codemods.nodes import is_gap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def in_a_row(parameters: cst.Parameters) -> list[cst.CSTNode]:
    """All parameters in their order, with `/` and `*`."""
    found: list[cst.CSTNode | cst.MaybeSentinel | None] = [
        *parameters.posonly_params,
        parameters.posonly_ind,
        *parameters.params,
        parameters.star_arg,
        *parameters.kwonly_params,
        parameters.star_kwarg,
    ]
    return [one for one in found if isinstance(one, cst.CSTNode)]


def from_a_row(items: Sequence[cst.CSTNode]) -> dict[str, Any]:
    """The fields of the parameters that such a row is."""
    none = cst.MaybeSentinel.DEFAULT
    groups: dict[str, Any] = {"params": [], "star_arg": none, "kwonly_params": []}
    groups |= {"posonly_params": [], "posonly_ind": none, "star_kwarg": None}
    group = "params"
    for item in items:
        if isinstance(item, cst.ParamSlash):
            groups |= {"posonly_params": groups["params"], "posonly_ind": item, "params": []}
        elif isinstance(item, cst.ParamStar) or _star(item) == "*":
            groups["star_arg"] = item
            group = "kwonly_params"
        elif _star(item) == "**":
            groups["star_kwarg"] = item
        else:
            groups[group].append(item)
    return groups


def useless_marks(items: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """The `/` with nothing before it, and the `*` with no parameter behind it."""
    found: list[cst.CSTNode] = []
    for index, item in enumerate(items):
        behind = items[index + 1 :]
        nothing = isinstance(item, cst.ParamSlash) and not index
        if nothing or (isinstance(item, cst.ParamStar) and not [p for p in behind if not _star(p)]):
            found.append(item)
    return found


def sources_of(
    pattern: Sequence[cst.CSTNode], node: cst.Parameters, paired: Mapping[int, cst.CSTNode]
) -> list[cst.CSTNode | None]:
    """What each item of a pattern's row matched in some parameters; None for a gap."""
    own: dict[object, object] = {
        cst.ParamSlash: node.posonly_ind,
        cst.ParamStar: node.star_arg,
        "*": node.star_arg,
        "**": node.star_kwarg,
    }
    found: list[object] = [
        None if is_gap(left) else paired.get(id(left), own.get(_star(left) or type(left)))
        for left in pattern
    ]
    return [one if isinstance(one, cst.CSTNode) else None for one in found]


def with_default(
    node: cst.Param, template: cst.Param, default: cst.BaseExpression | None
) -> dict[str, Any]:
    """The fields of a parameter that gets a default, or loses the one that it has."""
    if default is None:
        return {"default": None, "equal": cst.MaybeSentinel.DEFAULT}
    annotated = node.annotation is not None or template.annotation is not None
    return {"default": default, "equal": cst.AssignEqual() if annotated else _TIGHT}


def with_annotation(node: cst.Param, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The sign before the default of a parameter that gets its first annotation, or loses it."""
    is_annotated = changes.get("annotation", node.annotation) is not None
    if is_annotated == (node.annotation is not None) or node.default is None:
        return {}
    return {"equal": cst.AssignEqual() if is_annotated else _TIGHT}


def _star(item: cst.CSTNode) -> str:
    return cast("str", item.star) if isinstance(item, cst.Param) else ""
