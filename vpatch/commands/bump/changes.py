"""Which of the definitions that a patch edits or reads differ between two releases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.commands.bump.changed_code import ChangedCode
from vpatch.planning.code_place import CodePlace, alike, difference_of, place_of
from vpatch.planning.footprint import combined, definitions_read
from vpatch.planning.names import ORDER, STATEMENT, plain_name
from vpatch.planning.references import changed_definitions
from vpatch.planning.shape import differences_around, nameable, surroundings_in
from vpatch.planning.state import State
from vpatch.planning.successor import successor

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Change, Decision
    from vpatch.planning.view import View

# The part of two statements that must be the same for one to be an edit of the other.
_SAME_STATEMENT = 0.5
_DONE = frozenset([State.UPSTREAMED, State.ABSENT])


@dataclass(frozen=True)
class ReleaseSide:
    """A patch in one release: the decision, with its changes, and the pristine tree."""

    decision: Decision
    view: View


def changed_code(old: ReleaseSide, new: ReleaseSide) -> list[ChangedCode]:
    """Compare what a patch edits or reads in two releases, by the syntax of each definition.

    Comments, docstrings and layout make no difference. What the patch reads in one release is
    looked for by name in the other one, too. A patch that neither release needs has no code that a
    person could look at.
    """
    if old.decision.state is new.decision.state and new.decision.state in _DONE:
        return []
    patched = {path: changed_definitions(path, c) for path, c in _changes(old.decision)}
    names = {*_names_of(old.decision), *_names_of(new.decision)}
    before, after = (sorted(_all_of(side, names)) for side in (old, new))
    further = ((path, changed_definitions(path, c)) for path, c in _changes(new.decision))
    edited = {(path, one.name) for path, changed in (*patched.items(), *further) for one in changed}
    pairs = list(_pair(before, after, old.view, new.view))
    differing = [_changed_code(*pair, edited, patched, old, new) for pair in pairs]
    named = {one.name for one in differing}
    differing += (one for one in _changed_around(old, new) if one.name not in named)
    return sorted(
        differing, key=lambda one: (not one.edited, one.around, one.kind == "moved", one.name)
    )


def _changed_around(old: ReleaseSide, new: ReleaseSide) -> Iterator[ChangedCode]:
    """What is around the code of a patch, and does not mean the same in both releases."""
    sides = [surroundings_in(side.decision, side.view.tree.pin.tree) for side in (old, new)]
    if sides[0] is None or sides[1] is None:
        return
    for one in differences_around(sides[1], sides[0]):
        path, name = one.name.partition("::")[0], plain_name(one.name)
        # A statement that was edited has another key, and so has its order.
        if name == ORDER and _definitions(old.decision) != _definitions(new.decision):
            continue
        before, after = (_around(path, name, side.view) for side in (old, new))
        # Code that is the same in both is only around it in one of them.
        if before and after and before.lines == after.lines:
            continue
        changed = ChangedCode(
            "changed", edited=False, before=before, patched=None, after=after, around=True
        )
        yield changed if before and after else replace(changed, kind="gone" if before else "new")


def _around(path: str, name: str, view: View) -> CodePlace | None:
    """The code of a definition; for what has none, such as an order, a place without lines."""
    text = view.pristine(path)
    one = next((one for one in view.outline(path) if one.name == name), None)
    if text is None or one is None:
        return (
            CodePlace(path, name, 1, (f"{name} in {view.tree.pin.label}",))
            if ORDER in name or not path
            else None
        )
    return place_of(path, text, one)


@dataclass(frozen=True, order=True)
class _ReadCode:
    """A definition that a patch reads; see `vpatch.planning.outline.Definition`."""

    path: str
    name: str
    digest: str

    @property
    def is_statement(self) -> bool:
        return self.name.endswith(STATEMENT)


_Pair = tuple[_ReadCode | None, _ReadCode | None]


def _definitions(decision: Decision) -> Mapping[str, str]:
    return decision.shape.definitions if decision.shape else {}


def _names_of(decision: Decision) -> Iterator[str]:
    """What to ask another tree for: a statement is known by its digest, the rest by its name."""
    definitions = _definitions(decision)
    named = set(nameable(definitions))
    for key, digest in definitions.items():
        yield key if key in named else f"{key.partition('::')[0]}::{digest}"


def _all_of(side: ReleaseSide, names: Iterable[str]) -> Iterator[_ReadCode]:
    definitions = definitions_read([], {}, names, side.view)
    for key, digest in combined(_definitions(side.decision), definitions).items():
        yield _ReadCode(key.partition("::")[0], plain_name(key), digest)


def _pair(before: list[_ReadCode], after: list[_ReadCode], old: View, new: View) -> Iterator[_Pair]:
    """Pair what differs or moved. What is the same in both releases is left out."""
    _take(before, after, lambda one: (one.path, one.name, one.digest))
    yield from _take(before, after, lambda one: (one.name, one.digest))
    yield from _take(before, after, lambda one: None if one.is_statement else (one.path, one.name))
    yield from _take(before, after, lambda one: None if one.is_statement else one.name)
    for one in list(before):
        place = _place(one, old)
        best = max(
            (o for o in after if o.is_statement == one.is_statement and o.path == one.path),
            key=lambda o: alike(place, _place(o, new)),
            default=None,
        )
        if one.is_statement and best and alike(place, _place(best, new)) >= _SAME_STATEMENT:
            after.remove(best)
            yield one, best
            continue
        heir = None if one.is_statement else successor(place, old, new)
        if heir is None:
            yield one, None
            continue
        after[:] = [o for o in after if (o.path, o.name) != (heir.path, heir.name)]
        definitions = new.outline(heir.path)
        digest = next(o.digest for o in definitions if (o.name, o.first) == (heir.name, heir.first))
        yield one, _ReadCode(heir.path, heir.name, digest)
    yield from ((None, one) for one in after)


def _take(
    before: list[_ReadCode], after: list[_ReadCode], key: Callable[[_ReadCode], Hashable]
) -> list[tuple[_ReadCode, _ReadCode]]:
    """Take out of both lists what has the same key; one without a key stays."""
    pairs: list[tuple[_ReadCode, _ReadCode]] = []
    for one in list(before):
        own = key(one)
        other = next((o for o in after if own is not None and key(o) == own), None)
        if other is not None:
            before.remove(one)
            after.remove(other)
            pairs.append((one, other))
    return pairs


def _changes(decision: Decision) -> Iterator[tuple[str, Change]]:
    """The files that a patch changes, without those that it adds."""
    yield from ((path, c) for path, c in decision.changes.items() if c.before is not None)


def _changed_code(
    before: _ReadCode | None,
    after: _ReadCode | None,
    edited: set[tuple[str, str]],
    patched: Mapping[str, Sequence[Definition]],
    old: ReleaseSide,
    new: ReleaseSide,
) -> ChangedCode:
    if before is None:
        kind = "new"
    elif after is None:
        kind = "gone"
    elif before.name != after.name:
        kind = "renamed"
    else:
        kind = "moved" if before.digest == after.digest else "changed"
    code = _patched_code(before, old, patched.get(before.path, ())) if before else (None, ())
    return ChangedCode(
        kind,  # type: ignore[arg-type]
        any((one.path, one.name) in edited for one in (before, after) if one),
        _place(before, old.view) if before else None,
        code[0],
        _place(after, new.view) if after else None,
        code[1],
    )


def _place(one: _ReadCode, view: View) -> CodePlace:
    """The code of a definition: of those with its name, the one with its digest."""
    candidates = [o for o in view.outline(one.path) if o.name == one.name]
    exact = next((o for o in candidates if o.digest == one.digest), candidates[0])
    return place_of(one.path, view.pristine(one.path) or b"", exact)


def _patched_code(
    one: _ReadCode, old: ReleaseSide, definitions: Sequence[Definition]
) -> tuple[CodePlace | None, tuple[str, ...]]:
    """What a patch makes of a definition, and the difference; earlier patches are in both."""
    change = old.decision.changes.get(one.path)
    own = [o for o in definitions if o.name == one.name]
    if change is None or change.before is None or not own:
        return None, ()
    after = place_of(one.path, change.after, own[0])
    earlier = [o for o in old.view.outline_of(one.path, change.before) if o.name == one.name]
    before = place_of(one.path, change.before, earlier[0]) if earlier else None
    return after, tuple(difference_of(before, after))
