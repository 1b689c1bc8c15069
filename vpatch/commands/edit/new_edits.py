"""What the work tree has becomes edits: those of the patch as far as they hold, and new ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange
from vpatch.changes.time_limit import check_time
from vpatch.commands.edit.declaration.patch_text import ListedEdit
from vpatch.commands.edit.tweaks import Tweak, tweaks
from vpatch.commands.edit.workbench import Outcome, Workbench
from vpatch.commands.importing.assembly import AssembledPatch, assemble
from vpatch.deriving.derive import derive
from vpatch.deriving.metavariables import in_variables
from vpatch.source.memory import ChangedTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.deriving.candidate import Declared

_MOST_TWEAKS = 1500
# What says where an edit is, what narrows that, and what it makes.
_PLACES = frozenset(["find", "after", "before", "at-start-of", "at-end-of", "beside", "delete"])
_SCOPES = frozenset(["within", "files", "where", "unless", "expect", "having"])
_MAKES = frozenset(["insert", "rewrite", "add-keyword", "set-value", "replace-body", "add-import"])


@dataclass(frozen=True)
class FoldedEdits:
    """A list of edits that gives what is wanted, with the files beside the patch.

    `before` are the edits that they began with. `texts` are pieces of code that changed in them,
    before and after.
    """

    edits: tuple[ListedEdit, ...]
    files: Mapping[str, bytes]
    texts: Mapping[str, str] = field(default_factory=dict)
    by_text: tuple[str, ...] = ()
    before: tuple[Declared, ...] = ()


def foldings(
    bench: Workbench, edits: Sequence[Declared], files: Mapping[str, bytes]
) -> Iterator[FoldedEdits]:
    """Lists of edits that give what is wanted, those with most of the patch's own edits first.

    Raises:
        NotDerivedError: no edit says a part of it.
    """
    own = [ListedEdit(edit, number) for number, edit in enumerate(edits)]
    outcome = bench.run(edits, files)
    # What is done already on this tree may be to do on another one.
    bench.done = frozenset() if isinstance(outcome, int) else outcome.idle
    start = FoldedEdits(tuple(own), files, before=tuple(edits))
    for one in _folded(bench, start, edits):
        if isinstance(outcome, Outcome):
            general = _in_variables(bench, one, outcome)
            if general != one:
                yield general
        yield one


def _folded(
    bench: Workbench, start: FoldedEdits, edits: Sequence[Declared]
) -> Iterator[FoldedEdits]:
    tweaked = _tweaked(bench, start)
    for one in (tweaked, start):
        yield from _completed(bench, one)
        if one.edits == start.edits and one.files == start.files:
            break
    yield from _derived(bench, replace(start, edits=()), edits)


def _in_variables(bench: Workbench, one: FoldedEdits, begun: Outcome) -> FoldedEdits:
    """The edits with metavariables in place of the code that these match where it was `begun`."""
    edits = list(one.edits)
    for number, edit in enumerate(one.edits):
        for declared in in_variables(edit.declared, edit.origin, one.before, begun.bound):
            tried = [*edits[:number], replace(edit, declared=declared), *edits[number + 1 :]]
            after = bench.run(_declared(tried), one.files)
            if isinstance(after, Outcome) and not bench.differing(after.view):
                edits = tried
                break
    return replace(one, edits=tuple(edits))


def _declared(edits: Sequence[ListedEdit]) -> list[Declared]:
    return [one.declared for one in edits]


def _tweaked(bench: Workbench, one: FoldedEdits) -> FoldedEdits:
    """The edits with pieces of their code changed, as far as that comes nearer."""
    outcome = bench.run(_declared(one.edits), one.files)
    if isinstance(outcome, int):
        return one
    distance = bench.distance(outcome.view)
    numbers = iter(range(_MOST_TWEAKS))
    while distance:
        nearer = _nearer(bench, one, outcome, distance, numbers)
        if nearer is None:
            return one
        tweak, outcome = nearer
        distance = bench.distance(outcome.view)
        listed = [replace(a, declared=b) for a, b in zip(one.edits, tweak.edits, strict=True)]
        old, new = tweak.pair
        texts = {**one.texts, **({old: new} if old else {})}
        one = replace(one, edits=tuple(listed), files=tweak.files, texts=texts)
    return one


def _nearer(
    bench: Workbench, one: FoldedEdits, outcome: Outcome, distance: int, numbers: Iterator[int]
) -> tuple[Tweak, Outcome] | None:
    """The first change of a piece of code that comes nearer, with what it makes."""
    differing = bench.differing(outcome.view)
    for tweak in tweaks(_declared(one.edits), one.files, differing):
        check_time()
        if next(numbers, None) is None:
            return None
        other = bench.run(tweak.edits, tweak.files)
        if isinstance(other, int) or other.idle - outcome.idle:
            continue
        if bench.distance(other.view) < distance:
            return tweak, other
    return None


def _completed(bench: Workbench, one: FoldedEdits) -> Iterator[FoldedEdits]:
    """The edits that still give their part, and new ones for the rest."""
    every = _declared(one.edits)
    outcome = bench.run(every, one.files)
    is_right = isinstance(outcome, Outcome) and not bench.differing(outcome.view)
    if isinstance(outcome, Outcome) and is_right and not _useless(bench, one.edits, outcome):
        yield one
        return
    holding = [edit for edit in one.edits if bench.is_done(edit.declared, one.files)]
    while True:
        outcome = bench.run(_declared(holding), one.files)
        if isinstance(outcome, int):
            del holding[outcome]
            continue
        useless = _useless(bench, holding, outcome)
        if not useless:
            break
        holding = [edit for number, edit in enumerate(holding) if number not in useless]
    if holding or not every:
        yield from _derived(bench, replace(one, edits=tuple(holding)), every)


def _useless(bench: Workbench, edits: Sequence[ListedEdit], outcome: Outcome) -> set[int]:
    """The numbers of edits that have nothing to do, and had something to do before."""
    return {number for number in outcome.idle if edits[number].origin not in bench.done}


def _derived(
    bench: Workbench, one: FoldedEdits, before: Sequence[Declared]
) -> Iterator[FoldedEdits]:
    """Some edits, and new ones for what they do not give. `before` are all that there were."""
    outcome = bench.run(_declared(one.edits), one.files)
    if isinstance(outcome, int):
        return
    differing = bench.differing(outcome.view)
    if not differing:
        if one.edits:
            yield one
        return
    if any(wanted is None for _, wanted in differing.values()):
        return
    changes = [FileChange(path, now, new or b"") for path, (now, new) in differing.items()]
    tree = ChangedTree(bench.below.tree, dict(outcome.view.files), frozenset())
    added = [change for change in changes if change.before is None]
    for text in (False, True):
        derived = [
            edit
            for change in changes
            if change.before is not None
            for edit in derive(change, tree, exact=True, text=text)
        ]
        for merge in (True, False):
            assembled = assemble(added, derived, tree, merge=merge, taken=one.files)
            beside = {**one.files, **assembled.files}
            notes = assembled.notes(derived)
            reasons = tuple(f"{each.path}: {each.why}" for each in derived if each.why)
            for edits in _placed(one, assembled, notes, before):
                after = bench.run(_declared(edits), beside)
                if isinstance(after, int) or bench.differing(after.view):
                    continue
                if _useless(bench, edits, after):
                    continue
                near = _kept_near(bench, edits, beside, before)
                used = json.dumps(_declared(near))
                files = {n: c for n, c in beside.items() if n in one.files or json.dumps(n) in used}
                yield replace(one, edits=tuple(near), files=files, by_text=reasons)


def _kept_near(
    bench: Workbench,
    edits: Sequence[ListedEdit],
    files: Mapping[str, bytes],
    before: Sequence[Declared],
) -> Sequence[ListedEdit]:
    """The edits, where those that take an old one's place say as much as they can as it did."""
    for number, one in enumerate(edits):
        if one.instead_of is None:
            continue
        for declared in _between(before[one.instead_of], one.declared):
            other = ListedEdit(declared, one.instead_of, note=one.note)
            tried = [*edits[:number], other, *edits[number + 1 :]]
            after = bench.run(_declared(tried), files)
            if isinstance(after, int) or bench.differing(after.view):
                continue
            if not _useless(bench, tried, after):
                edits = tried
                break
    return edits


def _between(old: Declared, new: Declared) -> Iterator[Declared]:
    """Edits that take from a new one its place alone, and then more of it."""
    for taken in (_PLACES, _PLACES | _SCOPES, _PLACES | _MAKES):
        rest = {key: value for key, value in old.items() if key not in taken}
        if rest:
            yield _in_order(old, {**rest, **{k: v for k, v in new.items() if k in taken}})


def _in_order(old: Declared, edit: Declared) -> Declared:
    """An edit with its keys in the order of an old one. New ones are where others went."""
    fresh = [key for key in edit if key not in old]
    ordered: list[str] = []
    for key in old:
        if key in edit:
            ordered.append(key)
        elif fresh:
            ordered.append(fresh.pop(0))
    return {key: edit[key] for key in [*ordered, *fresh]}


def _placed(
    one: FoldedEdits,
    assembled: AssembledPatch,
    notes: Mapping[int, str],
    before: Sequence[Declared],
) -> Iterator[list[ListedEdit]]:
    """The edits in order: keywords in an edit that adds some, or in the place of what goes."""
    new = [ListedEdit(edit, note=notes.get(number)) for number, edit in enumerate(assembled.edits)]
    yield from _with_keywords(list(one.edits), new)
    present = {edit.origin for edit in one.edits}
    gone = [number for number in range(len(before)) if number not in present]
    if gone and new:
        yield _instead(list(one.edits), new, gone, before)
    yield [*one.edits, *new]


def _with_keywords(edits: list[ListedEdit], new: list[ListedEdit]) -> Iterator[list[ListedEdit]]:
    """Put keywords that are new into an edit that adds keywords to such a place."""
    keywords = [edit.declared.get("add-keyword") for edit in new]
    if not new or keywords[0] is None or any(each != keywords[0] for each in keywords):
        return
    for number, edit in enumerate(edits):
        own, more = edit.declared.get("add-keyword"), new[0].declared["add-keyword"]
        if isinstance(own, dict) and isinstance(more, dict):
            declared = {**edit.declared, "add-keyword": {**own, **more}}
            yield [*edits[:number], replace(edit, declared=declared), *edits[number + 1 :]]


def _instead(
    edits: list[ListedEdit],
    new: list[ListedEdit],
    gone: Sequence[int],
    before: Sequence[Declared],
) -> list[ListedEdit]:
    """Put each new edit where an edit was that is most like it, of those that go."""
    placed = list(edits)
    free = list(gone)
    for one in new:
        if not free:
            placed.append(one)
            continue
        nearest = max(free, key=lambda n: _likeness(one.declared, before[n]))
        free.remove(nearest)
        at = next(
            (
                n
                for n, edit in enumerate(placed)
                if (edit.origin if edit.origin is not None else edit.instead_of or 0) > nearest
            ),
            len(placed),
        )
        placed.insert(at, replace(one, instead_of=nearest))
    return placed


def _likeness(one: Declared, other: Declared) -> int:
    """How many keys and words two edits share."""
    keys = len(one.keys() & other.keys())
    words = [set(json.dumps(edit).replace('"', " ").split()) for edit in (one, other)]
    return 3 * keys + len(words[0] & words[1])
