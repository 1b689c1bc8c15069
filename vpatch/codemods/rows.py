"""Rewrite elements in a row, as arguments, parameters, entries, decorators and statements are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.align import aligned
from vpatch.codemods.correspond import in_pairs
from vpatch.codemods.fill import CannotRewrite, fill, fitted, unmarked
from vpatch.codemods.match import Match, same
from vpatch.codemods.nodes import code_of, is_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vpatch.codemods.layout import LayoutLine

    _Rewrite = Callable[[cst.CSTNode, cst.CSTNode, cst.CSTNode], cst.CSTNode]


def rewrite_row(
    pattern: Sequence[cst.CSTNode],
    template: Sequence[cst.CSTNode],
    line: LayoutLine,
    match: Match,
    rewrite: _Rewrite,
    *,
    sources: Sequence[cst.CSTNode | None] | None = None,
) -> list[cst.CSTNode] | None:
    """Rewrite element by element, or return None where the two do not line up.

    `line` has the elements as they are. `rewrite` turns an element into another. `sources` are what
    the elements of the pattern matched, if `match` does not know that.

    Raises:
        CannotRewrite: code that the pattern leaves out would be lost.
    """
    pairwise = in_pairs(pattern, template)
    origins = list(range(len(pattern))) if pairwise else aligned(pattern, template)
    if sources is None:
        sources = [None if is_gap(item) else match.paired.get(id(item)) for item in pattern]
    if origins is None or any(
        not is_gap(item) and (source is None or not line.has(source))
        for item, source in zip(pattern, sources, strict=True)
    ):
        return None
    for right, i in zip(template, origins, strict=True):
        source = None if i is None else sources[i]
        if i is not None and source is not None:
            line.replace(source, rewrite(pattern[i], right, source))
    for i, source in enumerate(sources):
        if source is not None and i not in origins:
            # A parameter goes with its annotation.
            if not isinstance(source, cst.Param):
                check_said(pattern[i], source, match)
            line.remove(source)
    survivors = [source for i in origins if i is not None and (source := sources[i]) is not None]
    if not all(map(line.has, survivors)):
        return None
    moved = [i for i in origins if i is not None and not _is_keyword(pattern[i])]
    if moved != sorted(moved):
        line.arrange([source for source in map(sources.__getitem__, moved) if source is not None])
    _insert_new(line, template, match, origins, sources)
    return _apart(line.elements)


def _insert_new(
    line: LayoutLine,
    template: Sequence[cst.CSTNode],
    match: Match,
    origins: Sequence[int | None],
    sources: Sequence[cst.CSTNode | None],
) -> None:
    """Put what comes from nothing in the pattern beside its neighbours in the new code."""
    for j, (right, i) in enumerate(zip(template, origins, strict=True)):
        if i is not None:
            continue
        new = fill(unmarked(right), match)
        behind, before = _neighbours(origins, j, sources)
        if _is_keyword(new) and None in sources and not _is_keyword(behind):
            behind = before = None  # behind all that a gap matches
        elif not j:
            before = line.first
        elif behind is before is None and isinstance(new, cst.Arg) and not new.star:
            before = line.first_keyword  # which the gap before it may have
        line.insert(new, behind, before)
        sources, origins = [*sources, new], [*origins[:j], len(sources), *origins[j + 1 :]]


def _is_keyword(element: cst.CSTNode | None) -> bool:
    return isinstance(element, cst.Arg) and element.keyword is not None


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


def check_said(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> None:
    """Check that a pattern says all of a node, as the new code says nothing of the rest.

    Raises:
        CannotRewrite: it does not.
    """
    if not same(pattern, node, Match(dict(match.bindings), whole=True)):
        raise CannotRewrite(
            f"the new code would drop what the pattern leaves out (decorators, annotations, bases, "
            f"else or finally) of {' '.join(code_of(node).split())[:60]}"
        )
