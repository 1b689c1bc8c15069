"""What is so of an item in a release, once that is compared with the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.callers import giving
from vpatch.commands.compat.judgement.facts import place_of
from vpatch.commands.compat.judgement.renames import renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.commands.compat.judgement.callers import Giving
    from vpatch.commands.compat.judgement.fact import Fact
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.surface.items import Item


def compared(
    items: Iterable[Item],
    facts: Sequence[Fact],
    release: JudgedRelease,
    earlier: tuple[JudgedRelease, Sequence[Fact]],
) -> list[Fact]:
    """Add what only a comparison with the base tells, and what takes long.

    That is the new name of what is gone, and who gives the parameters that an override lacks.
    """
    base, base_facts = earlier
    names: dict[str, str] = {}
    known: dict[tuple[str, str], Giving | None] = {}
    results = list(facts)
    for number, (item, fact, before) in enumerate(zip(items, facts, base_facts, strict=True)):
        if fact.presence == "gone" and not fact.moved:
            place = place_of(base, item)
            if place is not None:
                if place.dotted not in names:
                    names[place.dotted] = renamed(base, release, place)
                results[number] = fact._replace(moved=names[place.dotted])
        elif item.kind == "override" and fact.problems and before.presence == "here":
            fresh = [one for one in fact.problems if one not in before.problems]
            results[number] = fact._replace(callers=_callers(item, fresh, release, known))
    return results


def _callers(
    item: Item,
    problems: Sequence[str],
    release: JudgedRelease,
    known: dict[tuple[str, str], Giving | None],
) -> dict[str, str]:
    place = place_of(release, item) if problems else None
    if place is None:
        return {}
    callers = {}
    for problem in problems:
        key = (place.dotted, problem)
        if key not in known:
            known[key] = giving(release, place, item.own_name, problem)
        answer = known[key]
        if answer is not None:
            callers[problem] = answer.why
    return callers
