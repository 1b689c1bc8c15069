"""One short regular expression for many names of modules, which differ in their numbers."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def pattern_for(wanted: Collection[str], known: Collection[str]) -> str:
    """Return an expression that is for the whole of each wanted name, and for no other known one.

    Where all numbers that are known are wanted, any number is.
    """
    by_shape: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name in wanted:
        by_shape[_shape(name)].add(_numbers(name))
    others: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name in known:
        if (shape := _shape(name)) in by_shape:
            others[shape].add(_numbers(name))
    # Names that differ only in their last part are there once, with their last parts.
    ends: dict[str, list[str]] = defaultdict(list)
    for shape, numbers in sorted(by_shape.items()):
        parent, _, last = shape.rpartition(".")
        for slots in _slots(numbers, others[shape] | numbers):
            ends[_fill(parent, slots)].append(_fill(last, slots[parent.count("#") :]))
    starts = {parent: rf"{parent}\." if parent else "" for parent in ends}
    return _one_of([f"{starts[parent]}{_one_of(lasts)}" for parent, lasts in ends.items()])


def _slots(wanted: set[tuple[str, ...]], known: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return expressions for the numbers of one shape: one for all, or one for each."""
    columns = [sorted(set(column), key=int) for column in zip(*wanted, strict=True)]
    every = [set(column) for column in zip(*known, strict=True)]
    fits = {one for one in known if all(n in c for n, c in zip(one, columns, strict=True))}
    if len(wanted) > 1 and fits == wanted:
        return [
            tuple(
                r"\d+" if len(column) > 1 and set(column) == full else _one_of(column)
                for column, full in zip(columns, every, strict=True)
            )
        ]
    return sorted(wanted)


def _shape(name: str) -> str:
    return _NUMBER.sub("#", name)


def _numbers(name: str) -> tuple[str, ...]:
    return tuple(_NUMBER.findall(name))


def _fill(shape: str, slots: tuple[str, ...]) -> str:
    fixed = [re.escape(part) for part in shape.split("#")]
    pairs = itertools.zip_longest(fixed, slots[: len(fixed) - 1], fillvalue="")
    return "".join(itertools.chain.from_iterable(pairs))


def _one_of(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"(?:{'|'.join(texts)})"
