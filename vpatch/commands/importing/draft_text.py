"""How `vpatch import` shows a patch that it made."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from vpatch.console.output import style
from vpatch.planning.state import State
from vpatch.util.plural import counted
from vpatch.util.versions import describe_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.importing.draft import Draft
    from vpatch.commands.importing.proof import OnRelease
    from vpatch.commands.importing.request import ImportedPatch

_GIVES = {
    "exact": "the same bytes as the source",
    "layout": "the same code and comments as the source, in another layout",
    "code": "the same code as the source, without all of its comments, docstrings and blank lines",
}


def imported_lines(one: ImportedPatch) -> Iterator[str]:
    draft = one.draft
    yield from _head(one)
    counts = draft.counts
    kinds = ", ".join(f"{number} {kind}" for kind, number in counts.kinds.most_common())
    if counts.python:
        share = f"{counts.by_meaning} of {counted(counts.python, 'hunk')} of Python by meaning"
        yield f"  {share}; edits: {kinds}"
    elif kinds:
        yield f"  edits: {kinds}"
    yield from _not_by_meaning(draft)
    for file in draft.change.aside:
        count = f"{counted(file.hunks, 'hunk')}: " if file.hunks else ""
        yield f"  left aside  {file.path}  {count}{file.why}"
    for doubt in draft.change.doubts:
        yield f"  look at  {doubt}"
    for line in draft.change.printed:
        yield f"  printed  {line}"
    for note in _notes(one):
        yield f"  note  {note}"
    if one.requires:
        yield f"  requires {', '.join(one.requires)}"
    forms = sum(edit.forms for edit in draft.derived if edit.forms > 1)
    if forms:
        yield f"  {forms} forms of edits were tried on the other releases"
    same = groupby(one.releases, key=lambda release: (str(release.state), release.git))
    for (state, git), group in same:
        releases = list(group)
        span = describe_range(releases[0].version, releases[-1].version)
        yield f"  {span:<18} {state:<11} git apply -3: {git}"
        yield from why_git_alone(releases)


def why_git_alone(releases: Sequence[OnRelease]) -> Iterator[str]:
    """Why the patch is in conflict where git applies the diff; git does not check what it makes."""
    for reason, group in groupby(releases, key=lambda release: release.reason):
        same = list(group)
        if same[0].state is State.CONFLICT and same[0].git == "applies":
            span = describe_range(same[0].version, same[-1].version)
            yield f"    in {span}: {reason.splitlines()[0]}"


def _head(one: ImportedPatch) -> Iterator[str]:
    yield f"{style(one.id, bold=True)}  from {one.draft.change.where}"
    if one.upstreamed_in is not None:
        yield f"  {one.upstreamed_in} has this change already: vpatch took it out to make the patch"
    change = one.draft.change
    only = " for what it takes" if change.aside or change.doubts else ""
    yield f"  gives {_GIVES[one.proof.gives]}{only}"


def _notes(one: ImportedPatch) -> Iterator[str]:
    yield from one.notes
    if (wrong := one.unrecognised) is not None:
        yield (
            f"the patch is {wrong.state} in {wrong.version}, which has the change: write an "
            "`effect` that tells"
        )


def _not_by_meaning(draft: Draft) -> Iterator[str]:
    """What goes by text, gives less than the bytes, or is left out."""
    for edit in draft.by_text:
        yield f"  {edit.kind}  {edit.path}:{edit.lines[0]}  {edit.why}"
    for edit in draft.inexact:
        yield f"  {edit.gives}  {edit.path}:{edit.lines[0]}  {_GIVES[str(edit.gives)]}"
    yield from lines_of_left_out(draft)


def lines_of_left_out(draft: Draft) -> Iterator[str]:
    """What of the source is not in a patch, as it changes no code."""
    for edit in draft.left_out:
        yield f"  left out  {edit.path}:{edit.lines[0]}  {edit.why}; --exact keeps it as text"
