"""Code that Python's own parser reads alike, and that libcst reads as nodes of other kinds."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Literal, TypeGuard

import libcst as cst

from vpatch.codemods.nodes import is_gap, prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TextPart = str | cst.FormattedStringExpression
_Index = Literal["one", "a tuple", "several"]
SEQUENCES = (cst.MatchList, cst.MatchTuple)


def is_any_braces(node: object) -> TypeGuard[cst.Dict]:
    """Whether a pattern is `{...}`, which is spelt as a dict and may be a set as well."""
    return isinstance(node, cst.Dict) and bool(node.elements) and all(map(is_gap, node.elements))


def as_set(braces: cst.Dict) -> cst.Set:
    """The pattern `{...}` as one of a set."""
    return cst.Set([cst.Element(cst.Ellipsis()) for _ in braces.elements])


def index_kind(node: cst.Subscript) -> _Index:
    """How an index is written: `x[1]`, `x[(1, 2)]`, or as several, which a comma alone makes."""
    first = node.slice[0]
    if len(node.slice) > 1 or isinstance(first.comma, cst.Comma):
        return "several"
    if not isinstance(first.slice, cst.Index):
        return "one"
    if first.slice.star:
        return "several"
    return "a tuple" if isinstance(first.slice.value, cst.Tuple) else "one"


def indices(node: cst.Subscript) -> Sequence[cst.CSTNode]:
    """The entries of an index that is a tuple, however it is written; a slice is itself."""
    if index_kind(node) == "a tuple":
        (only,) = node.slice
        value = cst.ensure_type(cst.ensure_type(only.slice, cst.Index).value, cst.Tuple)
        return value.elements
    entries: list[cst.CSTNode] = []
    for each in node.slice:
        if not isinstance(each.slice, cst.Index):
            entries.append(each.slice)
        elif each.slice.star:
            entries.append(cst.StarredElement(each.slice.value))
        else:
            entries.append(cst.Element(each.slice.value))
    return entries


def text_parts(node: cst.BaseString) -> list[TextPart] | None:
    """The texts and the expressions of an f-string, or of strings in a row with one among them.

    None for other strings, and where a text cannot be read by itself.
    """
    strings = _in_a_row(node)
    if not any(isinstance(each, cst.FormattedString) for each in strings):
        return None
    joined: list[TextPart] = []
    for part in itertools.chain.from_iterable(map(_parts_of, strings)):
        if part is None:
            return None
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


def _in_a_row(node: cst.BaseString) -> list[cst.BaseString]:
    if isinstance(node, cst.ConcatenatedString):
        return [*_in_a_row(node.left), *_in_a_row(node.right)]
    return [node]


def _parts_of(node: cst.BaseString) -> Iterator[TextPart | None]:
    """The parts of one string; None if it is bytes."""
    if isinstance(node, cst.SimpleString):
        text = node.evaluated_value
        yield text if isinstance(text, str) else None
    elif isinstance(node, cst.FormattedString):
        raw = "r" if "r" in prefix_of(node) else ""
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                text = part.value.replace("{{", "{").replace("}}", "}")
                yield _text_of(f"{raw}{node.quote}{text}{node.quote}")
            else:
                yield part if isinstance(part, cst.FormattedStringExpression) else None
    else:
        yield None


def _text_of(literal: str) -> str | None:
    try:
        return str(ast.literal_eval(literal))
    except (SyntaxError, ValueError):
        return None
