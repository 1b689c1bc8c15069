"""The same file in other releases: which form of an edit does the same there.

A form does the same if the file loses and gets the same words as at the origin, beside a line that
is beside the change at the origin too. This is a rule for choosing a form, and proves nothing: the
states of the patch in each release are decided as for every other patch.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from vpatch.changes.time_limit import check_time
from vpatch.codemods.add_import import AddImport
from vpatch.deriving.left_out import WithoutBodies, without_bodies
from vpatch.planning.editing import run_edit
from vpatch.planning.view import UnparsableFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.planning.view import View

_WORD = re.compile(rb"\w+|[^\w\s,]")


@dataclass(frozen=True)
class OtherFile:
    """What a file is in some releases that have the same bytes of it."""

    releases: tuple[str, ...]
    content: bytes


@dataclass(frozen=True)
class ByteChange:
    """The bytes of a file before and after one difference."""

    now: bytes
    wanted: bytes


@dataclass(frozen=True)
class Survival:
    """What one form of an edit makes of other files: those where it does the same, and others."""

    same: tuple[OtherFile, ...] = ()
    wrong: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def releases(self) -> int:
        return sum(len(other.releases) for other in self.same)

    @property
    def rank(self) -> tuple[int, int]:
        """The higher the better: no wrong result first, then more releases."""
        return -len(self.wrong), self.releases


@dataclass
class OtherFiles:
    """A file in other releases, as the edits of earlier differences leave it.

    A release in which an earlier edit failed is no longer looked at: the patch is a conflict there,
    whatever the next edit does.
    """

    path: str
    files: Sequence[OtherFile] = ()
    tried: int = field(default=0)

    def survivals(
        self,
        forms: Iterable[Sequence[BoundEdit]],
        view: View,
        change: ByteChange,
        scope: Sequence[str] | None,
    ) -> Iterator[Survival]:
        """Run each form on each file, without the functions that the change is not in.

        A `scope` of None means all of each file.
        """
        parts = [
            WithoutBodies(other.content) if scope is None else without_bodies(other.content, scope)
            for other in self.files
        ]
        for bound in forms:
            yield self._survival(bound, view, change, parts)

    def _survival(
        self,
        bound: Sequence[BoundEdit],
        view: View,
        change: ByteChange,
        parts: Sequence[WithoutBodies],
    ) -> Survival:
        survival = Survival()
        # It goes where the imports of a file are, whatever these are.
        is_import = all(isinstance(edit.codemod, AddImport) for edit in bound)
        for other, part in zip(self.files, parts, strict=True):
            check_time()
            after = _made_of(bound, view.over({self.path: part.text}), self.path)
            if after is None:
                survival = replace(survival, failed=(*survival.failed, *other.releases))
            elif (
                is_import
                or after == part.text
                or does_the_same(change, ByteChange(part.text, after))
            ):
                same = replace(other, content=part.restored(after))
                survival = replace(survival, same=(*survival.same, same))
            else:
                survival = replace(survival, wrong=(*survival.wrong, *other.releases))
        return survival

    @property
    def releases(self) -> int:
        return sum(len(other.releases) for other in self.files)


def _made_of(bound: Sequence[BoundEdit], view: View, path: str) -> bytes | None:
    """What edits make of a file; None where one does not fit."""
    try:
        for edit in bound:
            result = run_edit(edit, view)
            if result.mismatch is not None:
                return None
            view = result.view
    except UnparsableFile:
        return None
    return view.read(path)


def does_the_same(one: ByteChange, other: ByteChange) -> bool:
    """Whether two files lose and get the same words, beside a line that is the same."""
    return _net(one) == _net(other) and _is_beside(_edges(one), _edges(other))


@lru_cache(maxsize=64)
def _net(change: ByteChange) -> tuple[Counter[bytes], Counter[bytes]]:
    old, new = (Counter(_WORD.findall(text)) for text in (change.now, change.wanted))
    return old - new, new - old


@dataclass(frozen=True)
class _Edges:
    """The lines of code above and below what differs, and the lines that go away."""

    above: bytes | None
    below: bytes | None
    old: tuple[bytes, ...]


@lru_cache(maxsize=64)
def _edges(change: ByteChange) -> _Edges:
    old, new = (
        [line for each in text.splitlines() if (line := each.strip()) and line[:1] != b"#"]
        for text in (change.now, change.wanted)
    )
    top = _shared(old, new)
    bottom = min(_shared(old[::-1], new[::-1]), len(old) - top, len(new) - top)
    below = len(old) - bottom
    return _Edges(
        old[top - 1] if top else None,
        old[below] if below < len(old) else None,
        tuple(old[top:below]),
    )


def _shared(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _is_beside(one: _Edges, other: _Edges) -> bool:
    if one.old and one.old == other.old:
        return True
    return one.above == other.above or one.below == other.below
