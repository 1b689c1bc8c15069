"""One pattern for many modules, as the list of a method takes it, and names in few words."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from vpatch.checkpoint.generalise import pattern_for
from vpatch.checkpoint.list_entry import SIGNS, Entry, Matching

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def regular_expression(wanted: Collection[str], others: Collection[str]) -> str:
    """Return an expression that matches each wanted name and none of the others."""
    start = _common_start(wanted, others)
    if start is not None:
        return f"{re.escape(start)}.*"
    return f"{pattern_for(wanted, {*wanted, *others})}$"


def list_entry(matching: Matching, wanted: Collection[str], others: Collection[str]) -> str | None:
    """Return one entry of a list that leaves out each wanted name, and none of the others.

    None is returned where the list takes names alone, or no one entry does so.
    """
    if len(set(wanted)) == 1 and matching is not Matching.DYNAMIC:
        (name,) = set(wanted)
        return None if Entry(name, matching).those(others) else name
    if (sign := SIGNS.get(matching)) is not None:
        return f"{sign}{regular_expression(wanted, others)}"
    start = _common_start(wanted, others)
    if start is None:
        return None
    entry = {
        Matching.WILDCARD: f"{start}*",
        Matching.INSIDE: start,
        Matching.ANYWHERE: start,
        Matching.COMPONENTS: start.removesuffix("."),
        Matching.BEGINNING: start.removesuffix("."),
    }.get(matching)
    if entry is None or Entry(entry, matching).those(others):
        return None
    return entry if len(Entry(entry, matching).those(wanted)) == len(set(wanted)) else None


def _common_start(wanted: Collection[str], others: Collection[str]) -> str | None:
    """Return the components that all wanted names begin with, if no other name does."""
    if len(wanted) == 1:
        return None
    # What lies between the first and the last in order begins as both do.
    first, last = min(wanted).split("."), max(wanted).split(".")
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    start = "".join(f"{part}." for part, _ in pairs)
    fits = bool(start) and all(name.startswith(start) for name in wanted)
    return start if fits and not any(name.startswith(start) for name in others) else None


def in_few_words(names: Iterable[str]) -> list[str]:
    """Return names with * for numbers in which they differ, each with how many it is for."""
    groups: dict[str, list[list[str]]] = defaultdict(list)
    for name in dict.fromkeys(names):
        groups[_NUMBER.sub("#", name)].append(_NUMBER.findall(name))
    lines = []
    for shape, numbers in groups.items():
        columns = [set(column) for column in zip(*numbers, strict=True)]
        slots = iter([column.pop() if len(column) == 1 else "*" for column in columns])
        text = "".join(next(slots) if part == "#" else part for part in re.split("(#)", shape))
        lines.append(text if len(numbers) == 1 else f"{text} ({len(numbers)})")
    return lines
