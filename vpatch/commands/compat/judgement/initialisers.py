"""What vLLM's methods read, and the target's `__init__` does not set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.compat.code.classes import line_of
from vpatch.commands.compat.code.codebase import IsHere, IsOutside
from vpatch.commands.compat.code.outline import Class, Value
from vpatch.commands.compat.judgement.fact import Fact
from vpatch.commands.compat.surface.initialisers import INIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.commands.compat.code.classes import BaseLine
    from vpatch.commands.compat.code.codebase import DefinedPlace
    from vpatch.commands.compat.code.methods import SelfUse
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.surface.initialisers import Initialiser
    from vpatch.commands.compat.surface.items import Item, Ref


def initialiser_fact(release: JudgedRelease, item: Item) -> Fact:
    """Return which attributes are missing that inherited methods of vLLM read.

    An attribute is missing if nothing but an `__init__` that does not run sets it: neither the
    target, nor a class, nor another method of vLLM's classes, nor code that has an object of it.
    """
    own = item.initialiser
    answer = release.evaluate(item.ref).answer
    if own is None or not isinstance(answer, IsHere) or not isinstance(answer.place.binding, Class):
        return Fact("own")
    if item.own_name in release.parents:
        # A class that inherits from it may set the rest.
        return Fact("own")
    line = line_of(release.code, answer.place)
    in_vllm = [place for place in line.places if not release.is_own(place)]
    if not in_vllm:
        return Fact("own")
    running = _running(release, line, own)
    if line.open or running is None or not answer.is_sure:
        return Fact("unknown", line.open or "vpatch does not know which __init__ runs")
    silent = [place for place in in_vllm if place.dotted not in running]
    uses = {place.dotted: release.self_uses(place) for place in in_vllm}
    initialised = {
        name
        for place in silent
        if INIT in uses[place.dotted]
        for name in uses[place.dotted][INIT].sets
    }
    known = set(own.sets) | release.outer_stores | set(_set_elsewhere(line, silent, uses, release))
    reads = dict(_reads(release, line, in_vllm, uses))
    problems = tuple(
        f"does not set {name}, which {reads[name]} reads"
        for name in sorted(initialised - known)
        if name in reads and not release.sets_from_outside(name)
    )
    return Fact("here", where=release.where(in_vllm[0]), problems=problems)


def _running(release: JudgedRelease, line: BaseLine, own: Initialiser) -> set[str] | None:
    """Return the classes whose `__init__` runs; None if that is not known."""
    names = [place.dotted for place in line.places]
    running: set[str] = set()
    for ref, is_after in _calls(own):
        answer = release.evaluate(ref).answer
        if isinstance(answer, IsOutside) or release.is_outside(ref):
            continue
        if not isinstance(answer, IsHere) or not isinstance(answer.place.binding, Class):
            return None
        if not is_after:
            running.update(one.dotted for one in line_of(release.code, answer.place).places)
        elif answer.place.dotted in names:
            running.update(names[names.index(answer.place.dotted) + 1 :])
        else:
            return None
    return running


def _calls(own: Initialiser) -> Iterator[tuple[Ref, bool]]:
    yield from ((ref, False) for ref in own.called)
    yield from ((ref, True) for ref in own.after)


def _set_elsewhere(
    line: BaseLine,
    silent: Iterable[DefinedPlace],
    uses: dict[str, dict[str, SelfUse]],
    release: JudgedRelease,
) -> Iterator[str]:
    """Yield what the target, a class itself or another method than a silent `__init__` sets."""
    silent_names = {place.dotted for place in silent}
    for place in line.places:
        one = place.binding
        if not isinstance(one, Class):
            continue
        for name, several in one.members.items():
            if any(not isinstance(member, Value) or member.is_set for member in several):
                yield name
        if release.is_own(place):
            yield from one.attributes
        for method, use in uses.get(place.dotted, {}).items():
            if method != INIT or place.dotted not in silent_names:
                yield from use.sets


def _reads(
    release: JudgedRelease,
    line: BaseLine,
    in_vllm: Iterable[DefinedPlace],
    uses: dict[str, dict[str, SelfUse]],
) -> Iterator[tuple[str, str]]:
    """Yield each attribute that an inherited method reads, with that method.

    A private method counts if a method that counts calls it.
    """
    taken: set[str] = set()
    for place in line.places:
        taken.update(release.patched_members.get(place.dotted, ()))
        if release.is_own(place) and isinstance(place.binding, Class):
            taken.update(place.binding.members)
    methods: dict[str, tuple[str, frozenset[str]]] = {}
    for place in in_vllm:
        for name, use in uses[place.dotted].items():
            if name not in taken:
                methods.setdefault(name, (f"{place.name}.{name}", use.reads))
    pending = sorted(name for name in methods if not name.startswith("_"))
    seen: set[str] = set()
    for name in pending:
        if name in seen or name not in methods:
            continue
        seen.add(name)
        shown, reads = methods[name]
        pending += sorted(one for one in reads if one in methods)
        yield from ((one, shown) for one in reads)
