"""Lists of modules that are not quantised: what they hit on disk, and what in vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.fused import mapped_entries, naming_of, run_time_modules, with_prefix
from vpatch.checkpoint.generalise import pattern_for
from vpatch.checkpoint.list_entry import ASKED_FOR_PARTS, Entry, Matching

if TYPE_CHECKING:
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.fused import Naming, RunTime
    from vpatch.checkpoint.modules import Module
    from vpatch.checkpoint.mtp import Mtp
    from vpatch.checkpoint.quantisation import Ignored

_OLDEST = "0.20.0"


@dataclass(frozen=True)
class Judged:
    """An entry of a list. `disk` and `run` are the modules that it hits, there and in vLLM.

    `missed` are those that it leaves out on disk and not in vLLM, and `until` is the release from
    which vLLM itself knows that they are the same; None if none does. `better` would hit both, as
    one entry or more; it is empty where nothing is missed.
    """

    entry: str
    disk: tuple[str, ...]
    run: tuple[str, ...]
    missed: tuple[str, ...] = ()
    until: str | None = None
    better: tuple[str, ...] = ()
    fault: str | None = None


@dataclass(frozen=True)
class JudgedList:
    """A list, its entries, and modules that are fused of some it names and some it does not."""

    ignored: Ignored
    entries: tuple[Judged, ...]
    split: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.split and not any(e.missed or e.fault for e in self.entries)


def judge(
    checkpoint: Checkpoint, mtp: Mtp, modules: dict[str, Module], ignored: Ignored
) -> JudgedList:
    """Compare a list with the modules that have a matrix, under their names on disk and in vLLM."""
    disk = [name for name, module in modules.items() if module.format is not None]
    run = run_time_modules(checkpoint, mtp, disk)
    naming = naming_of(checkpoint.architecture)
    names = _Names(disk, run)
    compared = [_compare(Entry(text, ignored.matching), naming, names) for text in ignored.entries]
    everywhere = {name for one in compared for name in one.disk}
    spelt = {name for one in compared for name in one.run}
    asked = _asked_for_parts(ignored, naming, spelt)
    by_parts = {
        one.name: one.declared
        for one in run
        if one.declared is not None and asked.issuperset(one.parts)
    }
    # Before 0.24 plain lists are asked for the parts of such a module alone, and not for its name.
    parts_alone = ignored.matching in {Matching.EXACT, Matching.INSIDE}
    by_name = {
        one.name
        for one in run
        if one.name in spelt and not (parts_alone and one.declared == _OLDEST)
    }
    split = tuple(
        one.name
        for one in run
        if ignored.matching is not Matching.TABLE
        and one.name not in by_name
        and 0 < len(everywhere & set(one.disk)) < len(one.disk)
    )
    judgements = []
    for one in compared:
        # A part is hit by its name where vLLM knows what it is a part of.
        hits = dict.fromkeys(
            names.owner[name].name
            for name in one.run
            if name in by_name or names.owner[name].name in by_parts
        )
        missed = [
            owner
            for owner in dict.fromkeys(names.made_of[name] for name in one.disk)
            # What another entry hits in vLLM is not missed.
            if ignored.matching is not Matching.TABLE
            and owner.name not in by_name
            and owner.name not in split
            and by_parts.get(owner.name) != _OLDEST
        ]
        until = [by_parts.get(owner.name) for owner in missed]
        judgements.append(
            Judged(
                one.entry.text,
                tuple(one.disk),
                tuple(hits),
                tuple(owner.name for owner in missed),
                max(u for u in until if u) if until and all(until) else None,
                _better(one, missed, names),
                one.entry.fault,
            )
        )
    return JudgedList(ignored, tuple(judgements), split)


def _asked_for_parts(ignored: Ignored, naming: Naming, spelt: set[str]) -> set[str]:
    """Return the hits among names of parts; of those, vLLM asks only some kinds of lists."""
    if ignored.matching in ASKED_FOR_PARTS:
        return spelt
    if ignored.matching is Matching.WILDCARD:
        return {with_prefix(naming, text) for text in ignored.entries}
    return set()


class _Names:
    """All names of modules: on disk, in vLLM, and those that vLLM gives to parts of modules."""

    def __init__(self, disk: list[str], run: list[RunTime]) -> None:
        self.disk = dict.fromkeys(disk)
        self.owner = {name: one for one in run for name in (one.name, *one.parts)}
        self.made_of = {name: one for one in run for name in one.disk}


@dataclass(frozen=True)
class _Compared:
    """An entry, and the names that it matches on disk and, as vLLM's mapper makes it, in vLLM."""

    entry: Entry
    disk: list[str]
    run: dict[str, None]


def _compare(entry: Entry, naming: Naming, names: _Names) -> _Compared:
    disk = entry.those(names.disk)
    run: dict[str, None] = {}
    # One that takes too long need not do so twice.
    for text in mapped_entries(naming, entry.text, entry.matching) if entry.fault is None else ():
        mapped = Entry(text, entry.matching)
        run.update(dict.fromkeys(mapped.those(names.owner)))
        entry.fault = entry.fault or mapped.fault
    return _Compared(entry, disk, run)


def _better(one: _Compared, missed: list[RunTime], names: _Names) -> tuple[str, ...]:
    """Return what to write in an entry's place, so that it hits the same on disk and in vLLM."""
    if not missed:
        return ()
    entry, new = one.entry, {owner.name for owner in missed}
    if not entry.is_pattern and entry.matching not in {Matching.REGEX, Matching.DYNAMIC}:
        return (entry.text, *sorted(new))
    disk = set(one.disk)
    parts = {
        part
        for owner in missed
        for part, made_of in zip(owner.parts, owner.disk, strict=False)
        if made_of in disk
    }
    known = {*names.disk, *names.owner}
    sign = "-:" if entry.matching is Matching.DYNAMIC else "re:"
    if entry.is_pattern:
        further = pattern_for((new | parts) - disk, known)
        return (f"{entry.text}|{further}$",)
    # A pattern is not put through the mapper any more.
    return (f"{sign}{pattern_for(disk | new | parts, known)}$",)
