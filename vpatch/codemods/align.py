"""Which part of new code comes from which part of a pattern."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.nodes import STATEMENTS, code_of, is_gap
from vpatch.codemods.parameters import MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENTRIES = (cst.BaseElement, cst.BaseDictElement)
_ALIGNED = (
    cst.Arg,
    cst.Decorator,
    cst.Param,
    *_ENTRIES,
    *STATEMENTS,
)
# No code of their own: these become nothing else, and nothing else becomes one of these.
_MARKS = {"...", *MARKS}


def aligned(
    pattern: Sequence[cst.CSTNode], template: Sequence[cst.CSTNode]
) -> list[int | None] | None:
    """For each element of `template`, the index of the one in `pattern` that it comes from.

    None where they do not line up: where a gap has no counterpart, or where something moves past
    one. Where all between two gaps goes, one gap is the counterpart of both.
    """
    if not all(isinstance(element, _ALIGNED) for element in (*pattern, *template)):
        return None
    old, new = list(map(_key, pattern)), list(map(_key, template))
    origins: list[int | None] = [None] * len(template)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        # Of entries, the first ones become others; that says where the others are.
        is_uneven = last - first != other_last - other_first
        if tag != "equal" and is_uneven and not isinstance((*pattern, *template)[0], _ENTRIES):
            continue
        for i, j in zip(range(first, last), range(other_first, other_last), strict=False):
            if tag == "equal" or _may_become(i, j, old, new):
                origins[j] = i
    for j, key in enumerate(new):
        if origins[j] is None and key in old and old.index(key) not in origins:
            origins[j] = old.index(key)
    return origins if _keeps_order(pattern, template, origins) else None


def _key(element: cst.CSTNode) -> str:
    """What an element is known by: its name, its keyword, or else all of its code."""
    if is_gap(element):
        return "..."
    match element:
        case cst.Param(name=cst.Name(value=name)):
            return name
        case cst.Arg(keyword=cst.Name(value=name)):
            return f"{name}="
        case cst.Arg():
            return element.star + code_of(element.value)
    return _entry_key(element) if isinstance(element, _ENTRIES) else code_of(element).strip()


def _entry_key(entry: cst.BaseElement | cst.BaseDictElement) -> str:
    if isinstance(entry, cst.DictElement):
        return f"{code_of(entry.key)}:"
    star = "" if isinstance(entry, cst.Element) else "*"
    return star + code_of(entry.value)


def _may_become(i: int, j: int, old: list[str], new: list[str]) -> bool:
    """Whether one element may become another at its place: neither is there under its own key."""
    is_keyword = old[i].endswith("="), new[j].endswith("=")
    return (
        _MARKS.isdisjoint({old[i], new[j]})
        and old[i] not in new
        and new[j] not in old
        and is_keyword[0] == is_keyword[1]
    )


def _keeps_order(
    pattern: Sequence[cst.CSTNode], template: Sequence[cst.CSTNode], origins: list[int | None]
) -> bool:
    gap_origins = {origins[j] for j, element in enumerate(template) if is_gap(element)}
    if None in gap_origins or not _all_have_counterparts(pattern, origins, gap_origins):
        return False
    gaps = 0
    for element, i in zip(template, origins, strict=True):
        gaps += is_gap(element)
        if isinstance(element, cst.Arg) and element.keyword is not None:
            continue  # the order of keywords does not matter
        if i is not None and gaps != sum(n in gap_origins for n in range(i + is_gap(element))):
            return False  # it would move past a gap
    return True


def _all_have_counterparts(
    pattern: Sequence[cst.CSTNode], origins: Sequence[int | None], gap_origins: set[int | None]
) -> bool:
    """Whether each gap of a pattern is kept, or has nothing left between it and one that is."""
    is_kept = True
    begun = False
    for i, element in enumerate(pattern):
        if is_gap(element):
            is_kept = i in gap_origins or (begun and is_kept)
            begun = True
        elif i in origins:
            if not is_kept:
                return False
            begun = False
    return is_kept
