"""How definitions of vLLM differ between two releases, for what is new to a target."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.facts import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.result import CompatItem, CompatResult
    from vpatch.commands.compat.surface.items import Item, Surface

_SHOWN = ("gone", "changed", "look again")
# Of one definition: a class may have a thousand.
LONGEST = 120


@dataclass(frozen=True)
class DefinitionDifference:
    """An item that is not in the second release as it is in the first, and the definition's diff.

    `lines` are empty where one of the two has no definition that vpatch reads.
    """

    item: CompatItem
    lines: tuple[str, ...]


def difference_of(
    old: JudgedRelease,
    new: JudgedRelease,
    surface: Surface,
    result: CompatResult,
    labels: tuple[str, str],
) -> Iterator[DefinitionDifference]:
    """Return what is new in the second release, in the order of the target's places."""
    by_place = {(one.kind, one.name, one.spots[0]): one for one in result.items}
    for key, item in surface.items.items():
        shown = by_place.get((item.kind, item.name, surface.places[key][0]))
        if shown is None or shown.verdicts[labels[1]].state not in _SHOWN:
            continue
        if shown.verdicts[labels[1]].state == shown.verdicts[labels[0]].state:
            continue
        before, after = _definition(old, item), _definition(new, item)
        lines: list[str] = []
        if before is not None:
            names = (before[0], after[0] if after else "/dev/null")
            lines = list(
                difflib.unified_diff(before[1], after[1] if after else [], *names, lineterm="")
            )
        yield DefinitionDifference(shown, tuple(lines[:LONGEST]))


def _definition(release: JudgedRelease, item: Item) -> tuple[str, list[str]] | None:
    """Return the place and the lines of what an item is about in vLLM."""
    place = place_of(release, item)
    return None if place is None else (release.where(place), release.lines(place))
