"""Places of a new release that look like those that a patch changes, and that stay as they are."""

from __future__ import annotations

import ast
import builtins
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from vpatch.codemods.add_import import AddImport
from vpatch.codemods.find_code import FindCode
from vpatch.codemods.insert import Insert
from vpatch.codemods.pattern import PatternError, parse_pattern
from vpatch.codemods.scope import Scope
from vpatch.codemods.set_value import SetValue
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.planning.outcome import outcome
from vpatch.planning.outline import is_python
from vpatch.planning.view import UnparsableFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.codemods.pattern import Pattern
    from vpatch.planning.view import View

# A pattern whose names more files have is not looked for in the whole package.
_MOST_FILES = 20
_SHOWN = 3
_BUILTINS = frozenset(dir(builtins))
_LENGTH = 60
_AROUND = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEFINITION = (cst.FunctionDef, cst.ClassDef)
_IMPORT = (cst.Import, cst.ImportFrom)


@dataclass(frozen=True)
class _Place:
    """A place of a release. A change between `first` and `last` is a change of it."""

    path: str
    scope: str
    line: int
    first: int
    last: int

    def is_in(self, lines: Mapping[str, set[int]]) -> bool:
        return any(self.first <= line <= self.last for line in lines.get(self.path, ()))


@dataclass(frozen=True)
class _Sign:
    """What code of a patch looks like.

    If it only `inserts` something beside a place, that may be anywhere in the definition around it.
    """

    pattern: Pattern
    where: Mapping[str, Sequence[str]]
    inserts: bool = False

    @property
    def text(self) -> str:
        text = " ".join(self.pattern.source.split())
        return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."

    def holders(self, view: View, paths: Iterable[str]) -> Iterator[str]:
        """Those of some files in which the pattern matches, whatever limits an edit has."""
        question = f"find {self.pattern.source} where {self.where}"
        for path in filter(is_python, paths):
            if view.read(path) is not None:
                with suppress(UnparsableFile):
                    if outcome(self._edit, question, path, view, located=False).sites:
                        yield path

    def places(self, view: View, paths: Iterable[str]) -> Iterator[_Place]:
        for path in self.holders(view, paths):
            positions = _positions(view.module(path))
            for site in self._edit.apply(*view.parsed(path)).sites:
                first, last = positions[site.node]
                span = _around(view.read(path) or b"", first) if self.inserts else None
                yield _Place(path, site.scope, first, *(span or (first, last)))

    @property
    def _edit(self) -> FindCode:
        return FindCode(self.pattern, Scope(None, self.where))


@dataclass(frozen=True)
class _Common:
    """A sign that a patch changes at all its places: in the package, its files, or definitions.

    `paths` are the files of the old release that have these places. None are all files.
    """

    sign: _Sign
    paths: tuple[str, ...] | None
    scopes: frozenset[str] | None

    @property
    def where(self) -> str:
        if self.paths is None:
            return "of the package"
        return "of its files" if self.scopes is None else "of these definitions"


@dataclass(frozen=True)
class FurtherPlaces:
    """What the places that a patch changes in the old release have in common.

    The new release may have more such places.
    """

    common: Sequence[_Common]
    new: View
    release: str

    @classmethod
    def of(
        cls,
        old: View,
        changes: Mapping[str, bytes],
        edits: Iterable[BoundEdit],
        new: View,
        release: str,
    ) -> FurtherPlaces:
        """Read what a change has in common.

        Args:
            old: the release that the patch fits, below the patch.
            changes: the files that the patch makes of it.
            edits: those of the patch.
            new: the other release, below the patch.
            release: the name of the old one.
        """
        lines = {path: _changed_lines(old.read(path), text) for path, text in changes.items()}
        signs = [sign for edit in edits if (sign := _sign_of(edit)) is not None]
        calls = _calls_changed(old, changes, lines)
        unique: dict[tuple[str, bool], _Sign] = {}
        for one in (*signs, *calls):
            unique.setdefault((one.pattern.source, one.inserts), one)
        common = [_common(sign, old, lines) for sign in unique.values()]
        return cls([one for one in common if one is not None], new, release)

    def notes(self, files: Mapping[str, bytes], names: Mapping[str, str]) -> Iterator[str]:
        """What somebody must look at where the new release becomes these files.

        `names` are files and definitions that it has by other names.
        """
        lines = {path: _changed_lines(self.new.read(path), text) for path, text in files.items()}
        seen: set[tuple[str, int]] = set()
        for one in self.common:
            further = [
                place
                for place in self._places(one, names)
                if (place.path, place.line) not in seen and not place.is_in(lines)
            ]
            seen |= {(place.path, place.line) for place in further}
            for place in further[:_SHOWN]:
                yield (
                    f"{place.path}:{place.line}: `{one.sign.text}` stays as it is"
                    f"{f' in {place.scope}' if place.scope else ''}; on {self.release}, the patch "
                    f"changes each such place {one.where}"
                )
            if further[_SHOWN:]:
                yield f"`{one.sign.text}` stays as it is at {len(further) - _SHOWN} more places"

    def _places(self, one: _Common, names: Mapping[str, str]) -> Iterator[_Place]:
        if one.paths is None:
            paths = self.new.holding([one.sign.pattern.needles], None)
            return one.sign.places(self.new, paths[:_MOST_FILES])
        places = one.sign.places(self.new, [names.get(path, path) for path in one.paths])
        if one.scopes is None:
            return places
        scopes = one.scopes.union(names.get(scope, scope) for scope in one.scopes)
        return (place for place in places if place.scope in scopes)


def _common(sign: _Sign, old: View, lines: Mapping[str, set[int]]) -> _Common | None:
    """Where the old release has a sign at no place that stays as it is; None if nowhere."""
    own = list(sign.places(old, lines))
    others = [one for one in own if not one.is_in(lines)]
    changed = [one for one in own if one not in others]
    if not changed:
        return None
    if not others:
        holding = old.holding([sign.pattern.needles], None)
        elsewhere = sign.holders(old, (path for path in holding if path not in lines))
        if len(holding) <= _MOST_FILES and next(elsewhere, None) is None:
            return _Common(sign, None, None)
    paths = tuple(dict.fromkeys(one.path for one in changed))
    if not {one.path for one in others}.intersection(paths):
        return _Common(sign, paths, None)
    scopes = frozenset(one.scope for one in changed)
    if sign.inserts or "" in scopes or scopes.intersection(one.scope for one in others):
        return None
    return _Common(sign, paths, scopes)


def _calls_changed(
    old: View, changes: Mapping[str, bytes], lines: Mapping[str, set[int]]
) -> Iterator[_Sign]:
    """The calls in lines that a patch changes, and that are not the same after it."""
    for path, text in sorted(changes.items()):
        before = old.read(path)
        if before is None or not is_python(path):
            continue
        with suppress(SyntaxError, ValueError):
            after = {ast.unparse(one) for one in _calls_of(text)}
            calls = [one for one in _calls_of(before) if one.lineno in lines[path]]
            names = {ast.unparse(one.func) for one in calls if ast.unparse(one) not in after}
            for name in sorted(names - _BUILTINS):
                with suppress(PatternError):
                    yield _Sign(parse_pattern(f"{name}(...)"), {})


def _sign_of(edit: BoundEdit) -> _Sign | None:
    """What the places of an edit have in common; None if that is not told by a pattern."""
    codemod = edit.codemod
    if isinstance(codemod, (TextReplacement, AddFile, AddImport, SetValue)):
        return None
    sought = codemod.sought
    if sought is None or not sought.names:
        return None
    node = sought.node
    parts = node.body if isinstance(node, cst.SimpleStatementLine) else [node]
    if isinstance(parts[0], _IMPORT):
        return None
    inserts = isinstance(codemod, Insert)
    # An insert beside a definition is not about it.
    beside = isinstance(codemod, Insert) and codemod.position in {"before", "after"}
    if beside and isinstance(node, _DEFINITION):
        return None
    return _Sign(sought, edit.where, inserts)


def _calls_of(text: bytes) -> list[ast.Call]:
    return [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]


def _around(text: bytes, line: int) -> tuple[int, int] | None:
    """The lines of the innermost function or class around a line."""
    around = None
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, _AROUND) and node.lineno <= line <= (node.end_lineno or 0):
                # What is deeper comes later.
                around = node.lineno, node.end_lineno or 0
    return around


def _changed_lines(before: bytes | None, after: bytes) -> set[int]:
    """The lines, from 1, that a change removes, and those on both sides of what it adds."""
    old, new = (before or b"").splitlines(), after.splitlines()
    lines: set[int] = set()
    for tag, first, last, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "insert":
            lines |= {first, first + 1}
        elif tag != "equal":
            lines |= set(range(first + 1, last + 1))
    return lines


@lru_cache(maxsize=8)
def _positions(module: cst.Module) -> dict[cst.CSTNode, tuple[int, int]]:
    """The first and the last line of each node."""
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return {node: (one.start.line, one.end.line) for node, one in positions.items()}
