"""What a patch makes of one release is laid into another one, by three sides of each file."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.codemods.line_length import laid_out
from vpatch.git.merge import SideLabels, merge_file
from vpatch.merging.clear_conflicts import with_clear_conflicts
from vpatch.merging.markers import MARKERS, ConflictPlace, conflict_places
from vpatch.merging.merged_imports import apart, with_imports, without_imports
from vpatch.merging.settled_names import NewNames
from vpatch.merging.upstream_names import renames, with_names
from vpatch.planning.code_place import place_of
from vpatch.planning.outline import is_python
from vpatch.planning.references import changed_definitions
from vpatch.planning.state import Change
from vpatch.planning.successor import successor
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.planning.outline import Definition
    from vpatch.planning.view import View

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# The part of the lines of a file that must be the same where only its folder is another one.
_ALIKE = 0.5


@dataclass(frozen=True)
class LaidPatch:
    """The files of the new release with the change in them.

    `places` are conflicts. `aside` says which parts of the change have no place there. `doubts` are
    what somebody must look at, though no conflict is there. `names` are definitions and files that
    the new release has by other names.
    """

    files: dict[str, bytes]
    places: tuple[ConflictPlace, ...]
    aside: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def open_parts(self) -> int:
        """How many parts somebody has to lay in."""
        return len(self.places) + len(self.aside)


@dataclass
class ThreeSides:
    """The change from `base` to `theirs`, both of the old release, goes into `ours`."""

    base: View
    theirs: View
    ours: View
    labels: SideLabels
    _files: dict[str, bytes] = field(default_factory=dict)
    _aside: list[str] = field(default_factory=list)
    # Where the old release has the files.
    _origins: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def lay(self) -> LaidPatch:
        """Lay the change into the new release, file by file."""
        self._files = dict(self.ours.files)
        for path in sorted({*self.base.files, *self.theirs.files}):
            theirs = self.theirs.read(path)
            if theirs is not None and theirs != self.base.read(path):
                self._lay_file(path, self.base.read(path), theirs)
        files = {
            path: text for path, text in self._files.items() if text != self.ours.pristine(path)
        }
        places = [
            place for path, text in sorted(files.items()) for place in conflict_places(path, text)
        ]
        names = NewNames(self.base, self.ours, self.theirs)
        open_files = {place.path for place in places}
        for path in sorted(files.keys() - open_files):
            if is_python(path):
                text = names.settled(self._origins.get(path, path), path, files[path])
                files[path] = laid_out(self.ours.pristine(path) or b"", text)
        known = {old: new for new, old in self._origins.items() if old != new} | self._names
        known |= names.renamed
        return LaidPatch(files, tuple(places), tuple(self._aside), tuple(names.notes), known)

    def _read(self, path: str) -> bytes | None:
        return self._files[path] if path in self._files else self.ours.read(path)

    def _lay_file(self, path: str, base: bytes | None, theirs: bytes) -> None:
        if base is None:
            present = self._read(path)
            if present is None:
                self._files[path] = theirs
            elif present != theirs:
                self._merge(path, present, b"", theirs)
            return
        target = path if self._read(path) is not None else self._moved(path, base)
        if target is not None:
            self._origins[target] = path
            if is_python(path):
                names = NewNames(self.base, self.ours, self.theirs)
                base, theirs = (names.of_side(path, target, side) for side in (base, theirs))
        moved = list(self._moved_functions(path, base, theirs, target))
        rest = _without(moved, base, theirs)
        if target is None and not _only_imports(base, rest):
            self._aside.append(f"{path} is gone, and nothing clearly took its place")
        if target is not None and rest != base:
            self._merge(target, self._read(target) or b"", base, rest)
        for one in moved:
            self._lay_function(one)

    def _merge(self, path: str, ours: bytes, base: bytes, theirs: bytes) -> None:
        merged = self._merged(path, ours, base, theirs)
        if merged is None:
            self._aside.append(f"{path} has no lines, and differs in both releases")
        else:
            self._files[path] = merged

    def _merged(self, path: str, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
        """What git makes of three sides, and then what is clear of each conflict that is left."""
        whole = self._of_git(path, ours, base, theirs)
        if whole is None or not is_python(path) or not list(conflict_places(path, whole)):
            return whole
        texts = [side.decode(errors="surrogateescape") for side in (base, theirs)]
        imports = apart(*texts)
        if imports is not None:
            rest = imports.text.encode(errors="surrogateescape")
            merged = self._of_git(path, ours, base, rest)
            if merged is not None and not list(conflict_places(path, merged)):
                text = with_imports(merged.decode(errors="surrogateescape"), imports.added)
                text = text and without_imports(text, imports.removed)
                if text is not None:
                    return text.encode(errors="surrogateescape")
        return whole

    def _of_git(self, path: str, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
        with scratch_folder() as folder:
            merged = merge_file(folder, ours, base, theirs, self.labels)
        if merged is None:
            return None
        if not merged.conflicts:
            return merged.content
        return with_clear_conflicts(merged.content, python=is_python(path))

    def _moved(self, path: str, base: bytes) -> str | None:
        """The only file that only the new release has, and that is mostly the same.

        Where one has the same name, it is that one.
        """
        place, old, lines = PurePosixPath(path), set(self.base.tree.paths()), base.splitlines()
        fresh = [
            one
            for one in self.ours.tree.paths()
            if one not in old and PurePosixPath(one).suffix == place.suffix
        ]
        own = set(lines)
        for paths in ([one for one in fresh if PurePosixPath(one).name == place.name], fresh):
            alike = [
                one
                for one in paths
                if _shares(own, other := (self.ours.read(one) or b"").splitlines())
                and _ratio(lines, other) > _ALIKE
            ]
            if alike:
                return alike[0] if len(alike) == 1 else None
        return None

    def _moved_functions(
        self, path: str, base: bytes, theirs: bytes, target: str | None
    ) -> Iterator[_MovedFunction]:
        """The functions that the change is in, and that are elsewhere in the new release."""
        if not is_python(path):
            return
        changed = changed_definitions(path, Change(base, theirs))
        names = {one.name for one in changed if isinstance(one.node, _FUNCTIONS)}
        before, after = (self._functions(path, text, names) for text in (base, theirs))
        present = set()
        if target is not None:
            outline = self.ours.outline_of(target, self._read(target) or b"")
            present = {one.name for one in outline}
        for name in sorted(before.keys() & after.keys() - present):
            heir = successor(place_of(path, base, before[name]), self.base, self.ours)
            if heir is not None:
                self._names[name] = heir.name
                yield _MovedFunction(
                    path, before[name], after[name], heir.path, heir.name, base, theirs
                )

    def _functions(self, path: str, text: bytes, names: set[str]) -> dict[str, Definition]:
        """The functions with some names, by name; of two with the same name, none."""
        listed = [one for one in self.base.outline_of(path, text) if one.name in names]
        numbers = {name: sum(one.name == name for one in listed) for name in names}
        return {one.name: one for one in listed if numbers[one.name] == 1}

    def _lay_function(self, one: _MovedFunction) -> None:
        text = self._read(one.path) or b""
        heirs = [d for d in self.ours.outline_of(one.path, text) if d.name == one.name]
        if len(heirs) != 1:
            self._aside.append(f"{one.before.name} is now {one.name} in {one.path}")
            return
        lines = text.splitlines(keepends=True)
        first, last = heirs[0].first - 1, heirs[0].last
        sides = [lines[first:last], one.lines(one.base, one.before)]
        sides.append(one.lines(one.theirs, one.after))
        indents = [_indent(side) for side in sides]
        bare = [_shifted(side, -by) for side, by in zip(sides, indents, strict=True)]
        texts = [b"".join(side) for side in bare]
        names = renames(
            *(text.decode(errors="replace") for text in (texts[1], texts[0])), local=True
        )
        texts[1:] = [
            with_names(text.decode(errors="surrogateescape"), names, local=True).encode(
                errors="surrogateescape"
            )
            for text in texts[1:]
        ]
        merged = self._merged(one.path, *texts)
        self._origins.setdefault(one.path, one.origin)
        if merged is None:
            self._aside.append(f"{one.path} has no lines, and differs in both releases")
            return
        lines[first:last] = _shifted(merged.splitlines(keepends=True), indents[0])
        self._files[one.path] = b"".join(lines)


@dataclass(frozen=True)
class _MovedFunction:
    """A function that the change is in: as it was, as it is to be, and where it went."""

    origin: str
    before: Definition
    after: Definition
    path: str
    name: str
    base: bytes
    theirs: bytes

    def lines(self, text: bytes, one: Definition) -> list[bytes]:
        return text.splitlines(keepends=True)[one.first - 1 : one.last]


def _without(moved: list[_MovedFunction], base: bytes, theirs: bytes) -> bytes:
    """The change without that of functions that moved."""
    lines = theirs.splitlines(keepends=True)
    for one in sorted(moved, key=lambda one: one.after.first, reverse=True):
        lines[one.after.first - 1 : one.after.last] = one.lines(base, one.before)
    return b"".join(lines)


def _only_imports(base: bytes, rest: bytes) -> bool:
    """Whether a change does nothing but import what functions that moved need."""
    texts = [side.decode(errors="surrogateescape") for side in (base, rest)]
    imports = apart(*texts)
    return base == rest or (imports is not None and imports.text == texts[0])


def _shares(lines: set[bytes], other: list[bytes]) -> bool:
    """Whether so many lines are the same that two files may be alike."""
    return len(lines.intersection(other)) > _ALIKE * len(lines)


def _ratio(one: list[bytes], other: list[bytes]) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _indent(lines: list[bytes]) -> int:
    return len(lines[0]) - len(lines[0].lstrip(b" ")) if lines else 0


def _shifted(lines: list[bytes], by: int) -> list[bytes]:
    """Lines with more or fewer blanks before them; markers of conflicts stay at the left."""
    if by < 0:
        return [line.removeprefix(b" " * -by) for line in lines]
    return [
        line if not line.strip() or line.startswith(MARKERS) else b" " * by + line for line in lines
    ]
