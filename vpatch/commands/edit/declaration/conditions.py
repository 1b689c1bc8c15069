"""Predicates that tell the release of a new variant from those that others are for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from vpatch.commands.edit.declaration.patch_text import read
from vpatch.commands.importing.concerns import pattern_of, whole_lines
from vpatch.declare.edits import Predicate
from vpatch.errors import VpatchError
from vpatch.planning.editing import probe, run_edit
from vpatch.planning.outline import is_python, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.edit.new_edits import FoldedEdits
    from vpatch.commands.edit.workbench import Workbench
    from vpatch.deriving.candidate import Declared
    from vpatch.library.patch import BoundVariant, Patch
    from vpatch.planning.view import View

_MOST = 8


@dataclass(frozen=True)
class CarriedSides:
    """The release that a patch fits, and the one that it is carried to, each without and with it.

    Both are as the patches below it leave them.
    """

    old: tuple[View, View]
    new: tuple[View, View]

    def marks(self) -> Iterator[tuple[Declared, Declared]]:
        """Pairs of predicates: the first holds in the old release only, the second in the new one.

        They do so with and without the patch. What the new one has more comes first: a release
        before the old one does not have it either.
        """
        paths = [path for path in self.new[1].files if self.new[0].read(path) is not None]
        newer = (one for path in paths for one in _marks(path, self.new, self.old))
        older = (one for path in paths for one in _marks(path, self.old, self.new))
        yield from ((_none(one), one) for one in islice(newer, _MOST))
        yield from ((one, _none(one)) for one in islice(older, _MOST))

    def tells(self, declared: Declared) -> bool:
        """Whether a predicate holds in the new release alone, with and without the patch."""
        return all(_holds(declared, view) for view in self.new) and not any(
            _holds(declared, view) for view in self.old
        )


def _none(declared: Declared) -> Declared:
    return {"none": [declared]}


def _marks(path: str, views: tuple[View, View], others: tuple[View, View]) -> Iterator[Declared]:
    """Predicates for code of a file that both of these views have, and none of the others."""
    content = views[0].read(path) or b""
    definitions: Iterator[Declared] = (
        {"find": pattern, "files": path}
        for one in (outline(content) if is_python(path) else ())
        if (pattern := pattern_of(one)) is not None
    )
    for one in chain(definitions, whole_lines(content, path)):
        if all(_holds(one, view) for view in views) and not any(
            _holds(one, view) for view in others
        ):
            yield one


def conditions_of_others(patch: Patch, sides: CarriedSides) -> list[dict[int, Declared]]:
    """What the variants may need that would change the new release, by their numbers.

    Such a variant fits the new release, without or with the patch. Nothing tells the releases apart
    where the list is empty.
    """
    fitting = [
        number
        for number, variant in enumerate(patch.variants)
        if any(
            _has_work(variant, view, carried=carried)
            for view, carried in zip(sides.new, (False, True), strict=True)
        )
    ]
    return [dict.fromkeys(fitting, one) for one, _ in sides.marks()] if fitting else [{}]


def _has_work(variant: BoundVariant, view: View, *, carried: bool) -> bool:
    if variant.when is not None and not probe(variant.when, view).holds:
        return False
    todo = False
    for edit in variant.edits:
        try:
            result = run_edit(edit, view, carried=carried)
        except VpatchError:
            return False
        if result.mismatch is not None:
            return False
        todo |= result.todo
        view = result.view
    return todo


def _holds(declared: Declared, view: View) -> bool:
    return probe(Predicate.model_validate_json(json.dumps(declared)), view).holds


def conditions_of_new(
    text: str,
    folded: FoldedEdits,
    start: Sequence[Declared],
    bench: Workbench,
    beside: Mapping[str, bytes],
    sides: CarriedSides,
) -> Iterator[Declared | None]:
    """What a new variant may need; `start` are the edits that it was begun with."""
    yield None
    yield from (one for one in _opposites(text) if sides.tells(one))
    own = [one.declared for one in folded.edits]
    new = [one for edit in own if edit not in start for one in _predicates(edit)]
    failing = [
        edit for edit in _all_edits(text) if isinstance(bench.step(edit, beside, bench.below), str)
    ]
    old = [_none(one) for edit in failing for one in _predicates(edit)]
    distinct = {json.dumps(when, sort_keys=True): when for when in [*new, *old]}
    yield from islice(distinct.values(), _MOST)
    yield from (when for _, when in sides.marks())


def _opposites(text: str) -> Iterator[Declared]:
    """What holds where a `when` of the patch does not: it says what the variants are about."""
    for one in read(text).get("variants", ()):
        when: Declared = json.loads(json.dumps(one.get("when", {})))
        match when:
            case {"none": [dict(only)]}:
                yield only
            case {"none": several}:
                yield {"any": several}
            case {"find": _} | {"text": _} | {"all": _} | {"any": _}:
                yield _none(when)


def _all_edits(text: str) -> Iterator[Declared]:
    document = read(text)
    for one in (document, *document.get("variants", ())):
        yield from json.loads(json.dumps(one.get("edits", [])))


def _predicates(edit: Declared) -> Iterator[Declared]:
    """Predicates that hold where an edit finds its place."""
    for key in ("find", "after", "before"):
        if isinstance(edit.get(key), str):
            more: Declared = {
                name: edit[name] for name in ("within", "where", "files") if name in edit
            }
            yield {"find": edit[key]} | more
