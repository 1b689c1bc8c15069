"""How `vpatch refresh` and `vpatch import --update` show what became of a patch."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from vpatch.commands.importing.draft_text import imported_lines
from vpatch.console.output import style
from vpatch.library.shapes import SHAPES
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.edit.absorb.result import AbsorbedSeries
    from vpatch.commands.edit.into.new_patch import SeparatePatch
    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.commands.edit.states import StateChange


_SHOWN = 6


def refreshed_lines(result: RefreshedPatch, source: str) -> Iterator[str]:
    """Say what became of a patch. `source` names what it was to give, such as the work tree."""
    name = style(result.id, bold=True)
    if not result.written:
        yield f"{name}  says what {source} says already; nothing was written"
    elif result.variant is not None:
        yield (
            f"{name}  gives the bytes of {source} on {result.version} by a new variant, "
            f"{result.variant!r}; the edits of the others stay as they are"
        )
    else:
        yield (
            f"{name}  gives the bytes of {source} on {result.version}; "
            f"{result.same} of {counted(result.total, 'edit')} "
            f"{'stays' if result.total == 1 else 'stay'} word for word"
        )
    yield from (f"  as text  {reason}" for reason in result.by_text)
    yield from (f"  {note}" for note in result.examples)
    yield from _states(result)
    if (result.folder / SHAPES).is_file() and result.written:
        yield f"next: vpatch test {result.id} --record writes the code that it is known on anew"
    yield from (f"  not in the patch  {reason}" for reason in result.kept_for)
    if result.checkout is not None:
        yield f"{result.checkout} stays; vpatch edit --abort {result.id} removes it"
    if result.needs_a_person:
        yield f"a person must look: {'; '.join(result.open_points)}"


def absorbed_lines(series: AbsorbedSeries) -> Iterator[str]:
    """Say what became of the hunks of a series."""
    for one in series.patches:
        yield from refreshed_lines(one.result, "the work tree")
        yield f"  has now  {listed([hunk.where for hunk in one.hunks], _SHOWN)}"
        if one.result.diff:
            yield one.result.diff_text.rstrip("\n")
    if not series.patches and not series.remaining:
        yield "the patches say what the work tree says already; nothing was written"
    yield from _differing(series.series)
    yield from (f"  in no patch  {one.where}: {one.reason}" for one in series.remaining)
    yield from (f"  in no patch  {reason}" for reason in series.kept_for)
    if series.checkout is not None:
        yield f"{series.checkout} stays, with what is in no patch"
        yield (
            "next: vpatch refresh --into NEW-ID makes a patch of this; vpatch edit --abort moves "
            "it to a diff"
        )


def new_patch_lines(new: SeparatePatch) -> Iterator[str]:
    """Say what the new patch is, what it means for the others, and what to do with it."""
    one, place = new.imported, new.place
    yield from imported_lines(one)
    others = "the others stay as they are" if new.edited is None else f"{new.edited} stays as it is"
    yield f"written to {one.folder}; {others}"
    where = "" if place.after is None else f" after {place.after}"
    if place.failure is not None:
        yield f"  {new.version:<18} {one.id}{where}: {place.failure}"
    yield from _differing(place.series)
    yield from (f"  not in the patch  {reason}" for reason in new.kept_for)
    if new.checkout is not None:
        abort = "vpatch edit --abort" if new.edited is None else f"vpatch edit --abort {new.edited}"
        yield f"{new.checkout} stays; {abort} removes it"
    if place.recipe is not None:
        yield f"next: add {one.id}{where} in {place.recipe}"


def _differing(states: Sequence[StateChange]) -> Iterator[str]:
    for state in states:
        if state.differs:
            yield f"  {state.version:<18} {state.patch}: {_change(state.before, state.after)}"
            yield from _why([state])


def _states(result: RefreshedPatch) -> Iterator[str]:
    """The states that changed in the series, and those of the patch on other releases."""
    for one in result.series:
        if one.differs or one.patch == result.id:
            yield f"  {one.version:<18} {one.patch}: {_change(one.before, one.after)}"
            yield from _why([one])
    for (before, after), group in groupby(
        result.releases, key=lambda one: (str(one.before), str(one.after))
    ):
        members = list(group)
        versions = [one.version for one in members]
        span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        yield f"  {span:<18} {_change(before, after)}"
        yield from _why(members)


def _why(members: Sequence[StateChange]) -> Iterator[str]:
    if members[0].is_worse:
        yield f"      {members[0].reason}"


def _change(before: str, after: str) -> str:
    return f"{after}, as before" if before == after else f"{before} -> {after}"
