"""Lists of edits are run on the tree below a patch, and compared with what the work tree has."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import count
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from vpatch.codemods.bind import bind
from vpatch.declare.edits import Edit
from vpatch.errors import VpatchError
from vpatch.planning.editing import run_edit
from vpatch.trust.decision import EVERYTHING
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.codemods.bind import BoundEdit
    from vpatch.deriving.candidate import Declared
    from vpatch.planning.view import View

_EDIT: TypeAdapter[Edit] = TypeAdapter(Edit)
_TOKEN = re.compile(r"\w+|[ \t]+|\n|[^\w\s]")


@dataclass(frozen=True)
class Outcome:
    """What edits make of the tree: the view after each of them.

    `idle` are the numbers of those that had nothing to do. `bound` is the code for metavariables
    that is the same at all places of an edit.
    """

    views: tuple[View, ...]
    idle: frozenset[int]
    bound: tuple[dict[str, str], ...]

    @property
    def view(self) -> View:
        return self.views[-1]


@dataclass
class Workbench:
    """Runs edits on `below`. `wanted` are the files that they are to make, by their paths.

    `folder` is for the files beside the patch. Their code may run: that of the patch did already.
    """

    below: View
    wanted: Mapping[str, bytes]
    folder: Path
    # The numbers of the patch's own edits that have nothing to do on this tree.
    done: frozenset[int] = frozenset()
    _numbers: Iterator[int] = field(default_factory=count)

    def bound(self, edits: Sequence[Declared], files: Mapping[str, bytes]) -> list[list[BoundEdit]]:
        """Bind edits with the files beside them.

        Raises:
            VpatchError: one is wrong.
            ValidationError: one is not what patch.yaml takes.
        """
        folder = self.folder / str(next(self._numbers))
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        declared = [_EDIT.validate_json(json.dumps(edit)) for edit in edits]
        return [bind(edit, folder, EVERYTHING) for edit in declared]

    def run(self, edits: Sequence[Declared], files: Mapping[str, bytes]) -> Outcome | int:
        """Run edits one after the other; where one does not fit, return its number."""
        view, views, idle = self.below, [self.below], set()
        codes: list[dict[str, str]] = []
        try:
            bound = self.bound(edits, files)
        except (VpatchError, ValidationError):
            return self._wrong_one(edits, files)
        for number, parts in enumerate(bound):
            todo, sites = False, []
            for part in parts:
                try:
                    result = run_edit(part, view)
                except VpatchError:
                    return number
                if result.mismatch is not None:
                    return number
                todo |= result.todo
                sites += [(site.bindings or {}).items() for site in result.sites]
                view = result.view
            views.append(view)
            codes.append(dict(set.intersection(*map(set, sites)) if sites else ()))
            if not todo:
                idle.add(number)
        return Outcome(tuple(views), frozenset(idle), tuple(codes))

    def step(self, edit: Declared, files: Mapping[str, bytes], view: View) -> View | str:
        """The view after one edit; or why it does not find its places there."""
        try:
            (parts,) = self.bound([edit], files)
            for part in parts:
                result = run_edit(part, view)
                if result.mismatch is not None:
                    return f"{part.name}: {result.mismatch}"
                view = result.view
        except VpatchError as error:
            return error.what
        except ValidationError as error:
            return first_of(error)
        return view

    def _wrong_one(self, edits: Sequence[Declared], files: Mapping[str, bytes]) -> int:
        for number, edit in enumerate(edits):
            try:
                self.bound([edit], files)
            except (VpatchError, ValidationError):
                return number
        return 0

    def is_done(self, edit: Declared, files: Mapping[str, bytes]) -> bool:
        """Whether an edit has nothing to do in the files that are wanted, and says so."""
        view = self.below.over(self.wanted)
        gone = [path for path in self._paths(edit) if path not in self.wanted]
        if any(view.read(path) is None for path in gone):
            return False
        try:
            (parts,) = self.bound([edit], files)
            results = [run_edit(part, view, carried=True) for part in parts]
        except (VpatchError, ValidationError):
            return False
        return not any(result.mismatch or result.todo for result in results)

    def _paths(self, edit: Declared) -> list[str]:
        return [str(edit["add-file"])] if "add-file" in edit else []

    def differing(self, view: View) -> dict[str, tuple[bytes | None, bytes | None]]:
        """The files that a view has otherwise than wanted: as they are, and as they are to be."""
        different: dict[str, tuple[bytes | None, bytes | None]] = {}
        for path in sorted({*view.files, *self.wanted}):
            wanted = self.wanted.get(path, self.below.read(path))
            if view.read(path) != wanted:
                different[path] = (view.read(path), wanted)
        return different

    def distance(self, view: View) -> int:
        """How many words a view has otherwise than wanted."""
        return sum(_distance(now or b"", new or b"") for now, new in self.differing(view).values())


def _distance(one: bytes, other: bytes) -> int:
    total = 0
    for old, new in hunks(one, other):
        words = [_TOKEN.findall("".join(side.changed)) for side in (old, new)]
        matcher = SequenceMatcher(None, words[0], words[1], autojunk=False)
        for tag, first, last, other_first, other_last in matcher.get_opcodes():
            if tag != "equal":
                total += last - first + other_last - other_first
    return total


@dataclass(frozen=True)
class HunkSide:
    """One side of a hunk: the lines that differ, and those above and below."""

    lines: Sequence[str]
    first: int
    last: int

    @property
    def changed(self) -> Sequence[str]:
        return self.lines[self.first : self.last]

    def around(self, above: int, below: int) -> Sequence[str]:
        """The lines that differ, with some of those around."""
        return self.lines[max(0, self.first - above) : self.last + below]


def hunks(before: bytes, after: bytes) -> Iterator[tuple[HunkSide, HunkSide]]:
    """What differs between two files, line by line."""
    old, new = (text.decode(errors="replace").splitlines(keepends=True) for text in (before, after))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag != "equal":
            yield HunkSide(old, first, last), HunkSide(new, other_first, other_last)


def words_of(text: str) -> list[str]:
    """The words, blanks and signs of a text."""
    return _TOKEN.findall(text)
