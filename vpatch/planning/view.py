"""A tree with edits laid over it: what a patch sees, its predecessors' changes included."""

from __future__ import annotations

import ast
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import libcst as cst

from vpatch.codemods.binding import bindings_of_tree
from vpatch.codemods.extent import Extents
from vpatch.codemods.nesting import NestedTooDeeplyError, measured
from vpatch.codemods.reduced import Reducer
from vpatch.codemods.spelling import Spellings
from vpatch.errors import VpatchError
from vpatch.planning.answers import Answers
from vpatch.planning.lines import pristine_lines
from vpatch.planning.outline import is_python, outline_of_tree
from vpatch.planning.statements import Statements
from vpatch.util.words import has_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vpatch.codemods.pattern import Pattern
    from vpatch.codemods.reduced import Look, Reduced
    from vpatch.planning.outline import Definition
    from vpatch.source.tree import Tree


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
# How many files of a kind are kept parsed.
_KEPT = 12
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{2,}")


ReducedModule = tuple["Reduced", cst.Module, Extents]


class UnparsableFile(VpatchError):
    """libcst cannot parse a file, or cannot write it back byte for byte."""

    code = "planning.unparsable-file"


@dataclass
class _Shared:
    """What is known of one tree, by all views of it."""

    holders: dict[bytes, frozenset[str]] = field(default_factory=dict)
    vocabulary: frozenset[str] | None = None
    digests: dict[str, bytes] = field(default_factory=dict)
    matching: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    lines: dict[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    # By the digests of the contents.
    parsed: dict[bytes, tuple[cst.Module, Extents]] = field(default_factory=dict)
    trees: dict[bytes, ast.Module | None] = field(default_factory=dict)
    statements: dict[bytes, Statements | None] = field(default_factory=dict)
    outlines: dict[tuple[bytes, bool], list[Definition]] = field(default_factory=dict)
    reducers: dict[bytes, tuple[Reducer, Spellings]] = field(default_factory=dict)
    # By the digests of what is left of the contents: many edits look at the same part of a file.
    parts: dict[bytes, tuple[cst.Module, Extents]] = field(default_factory=dict)


@dataclass
class View:
    """Read access to a tree as it is after some edits.

    Files are parsed once, and searches of the pristine files made once, for all views of the same
    tree. A view is never changed: `over` returns a new one. `files` have the bytes that replace
    others. `answers` are what is known of files by their content.
    """

    tree: Tree
    files: Mapping[str, bytes] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)
    _shared: _Shared = field(default_factory=_Shared)
    # What several edits look at; see `looking`.
    looks: tuple[Look, ...] = ()
    _by_looks: dict[bytes, ReducedModule | None] = field(default_factory=dict)

    def over(self, files: Mapping[str, bytes]) -> View:
        """The same view with files replaced."""
        return View(self.tree, {**self.files, **files}, self.answers, self._shared)

    def read(self, path: str) -> bytes | None:
        """The file's bytes, or None where there is no such file."""
        return self.files[path] if path in self.files else self.pristine(path)

    def pristine(self, path: str) -> bytes | None:
        """The file's bytes before all edits, or None where there was no such file."""
        if path in self._package:
            return self._package[path]
        return self.tree.read(path) if path in self._paths else None

    def digest(self, path: str) -> bytes:
        """The SHA-256 of a file that is there."""
        if path in self.files:
            return hashlib.sha256(self.files[path]).digest()
        return self._pristine_digest(path)

    def _pristine_digest(self, path: str) -> bytes:
        known = self._shared.digests
        if path not in known:
            known[path] = hashlib.sha256(self.pristine(path) or b"").digest()
        return known[path]

    def outline(self, path: str) -> list[Definition]:
        """What a file defines before all edits; nothing where there is no such file."""
        text = self.pristine(path)
        return [] if text is None else self.outline_of(path, text)

    def ask_pristine(self, question: str, path: str, find: Callable[[], Any]) -> Any:
        """Ask about a file before all edits, which may not be there."""
        digest = b"" if self.pristine(path) is None else self._pristine_digest(path)
        return self.answers.ask(f"{question}; Python: {is_python(path)}", [digest], find)

    def outline_of(self, path: str, text: bytes) -> list[Definition]:
        """What some content of a file defines."""
        known, key = self._shared.outlines, (hashlib.sha256(text).digest(), is_python(path))
        if key not in known:
            tree = None
            if is_python(path):
                with suppress(UnparsableFile):
                    tree = self._tree_of(path, text)
            _put(known, key, outline_of_tree(text, tree))
        return known[key]

    def pristine_line(self, path: str, line: int, text: bytes) -> int:
        """The line of the pristine file for a line of what edits made of it.

        For code that was added, it is the line that follows it.
        """
        pristine = self.pristine(path)
        if pristine is None or pristine == text:
            return line
        known = self._shared.lines
        key = (path, hash(text))
        if key not in known:
            known[key] = pristine_lines(pristine, text)
        return known[key][line - 1]

    def obstacle(self, path: str) -> str | None:
        """What keeps a file from being created at `path`: a file above it, or a folder there."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        parent = next((path for path in above if self.read(path) is not None), None)
        if parent is not None:
            return f"{parent} is a file"
        link = next((name for name in (*above, path) if name in self.tree.links), None)
        if link is not None:
            return f"{link} is a symbolic link"
        folder = f"{path}/"
        if any(other.startswith(folder) for other in (*self._paths, *self.files)):
            return f"{path} is a folder"
        return None

    def has_path_below(self, *starts: str) -> bool:
        """Whether a path begins with one of some texts."""
        return any(path.startswith(starts) for path in (*self._paths, *self.files))

    @cached_property
    def _package(self) -> Mapping[str, bytes]:
        return self.tree.package_files

    @cached_property
    def _unchanged(self) -> frozenset[str]:
        """Paths of the package's files that no edit replaced."""
        return frozenset(self._package) - self.files.keys()

    @cached_property
    def _own(self) -> Sequence[str]:
        return sorted(self._package)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(self.tree.paths())

    @cached_property
    def _added_to_package(self) -> frozenset[str]:
        roots = {path.partition("/")[0] for path in self._package}
        return frozenset(
            path
            for path in self.files
            if path.endswith(".py") and path not in self._paths and path.partition("/")[0] in roots
        )

    def module(self, path: str) -> cst.Module:
        """The parsed file; see `parsed`."""
        return self.parsed(path)[0]

    def parsed(self, path: str) -> tuple[cst.Module, Extents]:
        """The parsed file, and what its statements were parsed from.

        Raises:
            UnparsableFile: it is not Python.
        """
        known, key = self._shared.parsed, self.digest(path)
        if key not in known:
            text = self.read(path) or b""
            tree = self._tree_of(path, text)
            module, extents = _parsed(path, text), Extents()
            extents.remember(module, text, tree)
            _put(known, key, (module, extents))
        return known[key]

    def looking(self, looks: Sequence[Look]) -> View:
        """The same view, where a file is read at once for several edits that change nothing."""
        return View(self.tree, self.files, self.answers, self._shared, tuple(looks))

    def reduced(self, path: str, look: Look) -> ReducedModule | None:
        """The file without what an edit does not look at, parsed; None where that is all of it.

        Raises:
            UnparsableFile: it is not Python.
        """
        key = self.digest(path)
        if key in self._shared.parsed:
            return None
        if look not in self.looks:
            return self._reduced(path, (look,))
        if key not in self._by_looks:
            self._by_looks[key] = self._reduced(path, self.looks)
        return self._by_looks[key]

    def _reduced(self, path: str, looks: Sequence[Look]) -> ReducedModule | None:
        known, key = self._shared.reducers, self.digest(path)
        tree = self.tree_of(path)
        if tree is None:
            return None
        if key not in known:
            spellings = Spellings(bindings_of_tree(tree))
            _put(known, key, (Reducer(self.read(path) or b"", tree, spellings), spellings))
        reducer, spellings = known[key]
        reduced = reducer.reduced(looks)
        if reduced is None:
            return None
        module, extents = self._part(path, reduced.text, spellings)
        if module.default_indent != reducer.default_indent:
            return None
        return reduced, module, extents

    def _part(self, path: str, text: bytes, spellings: Spellings) -> tuple[cst.Module, Extents]:
        """What is left of a file, parsed: of another file, the same may be left."""
        known, key = self._shared.parts, hashlib.sha256(text).digest()
        if key not in known:
            module, extents = _parsed(path, text), Extents()
            extents.remember(module, text, ast.parse(text), spellings)
            _put(known, key, (module, extents))
        module, extents = known[key]
        return module, extents.of_whole(module, spellings)

    def tree_of(self, path: str) -> ast.Module | None:
        """The file as Python's own parser reads it, if it can.

        Raises:
            UnparsableFile: it is nested too deeply.
        """
        return self._tree_of(path, self.read(path) or b"")

    def _tree_of(self, path: str, text: bytes) -> ast.Module | None:
        known, key = self._shared.trees, hashlib.sha256(text).digest()
        if key not in known:
            _put(known, key, _tree(path, text))
        return known[key]

    def matching(self, globs: Sequence[str] | None) -> Sequence[str]:
        """Paths that match one of the globs; the package's Python files where there are none."""
        if globs is None:
            added = self._added_to_package if self.files else frozenset()
            return sorted(added.union(self._own)) if added else self._own
        known, key = self._shared.matching, tuple(globs)
        matches = _matcher(key)
        if key not in known:
            known[key] = frozenset(filter(matches, self._paths))
        return sorted(known[key].union(filter(matches, self.files)))

    def holding(
        self, needles: Sequence[frozenset[bytes]], globs: Sequence[str] | None
    ) -> list[str]:
        """Paths of the files that contain every word of one of the alternatives."""
        paths = self.matching(globs)
        return sorted({path for words in needles for path in self._holding_all(paths, words)})

    def mentioning(self, paths: Iterable[str], pieces: frozenset[bytes]) -> list[str]:
        """Those of the files whose text contains every piece."""
        return [
            path for path in paths if all(piece in (self.read(path) or b"") for piece in pieces)
        ]

    def may_have(self, path: str, pattern: Pattern) -> bool:
        """Whether a Python file may have a match of a pattern; False only if it has none."""
        known, key = self._shared.statements, self.digest(path)
        if key in self._shared.parsed:
            return True
        if key not in known:
            tree = self.tree_of(path)
            _put(known, key, None if tree is None else Statements(self.read(path) or b"", tree))
        statements = known[key]
        return statements is None or statements.may_have(pattern)

    @property
    def vocabulary(self) -> frozenset[str]:
        """Every name of some length in the package's pristine files."""
        if self._shared.vocabulary is None:
            # A word may start with digits. The name is the rest of it.
            names = _WORD.findall(b"\n".join(self.tree.words()))
            self._shared.vocabulary = frozenset(name.decode() for name in names)
        return self._shared.vocabulary

    def containing(self, text: bytes, globs: Sequence[str] | None) -> list[str]:
        """Paths of the files that contain a text."""
        wanted = frozenset(self.matching(globs))
        unknown = wanted - self._unchanged
        unchanged = wanted & self._unchanged
        if unchanged:
            unchanged &= self.tree.containing(text)
        return sorted([*unchanged, *self.mentioning(unknown, frozenset([text]))])

    def _holding_all(self, paths: Sequence[str], words: frozenset[bytes]) -> Sequence[str]:
        if not words:
            return paths
        own = not self.files and paths is self._own
        wanted = self._unchanged if own else frozenset(paths)
        unknown = wanted - self._unchanged
        unchanged = wanted & self._unchanged
        # The longest word is the rarest: the others are looked for in the few files that have it.
        for word in sorted(words, key=lambda word: (-len(word), word)):
            if unchanged:
                unchanged &= self._pristine_holders(word)
            unknown = frozenset(path for path in unknown if has_word(word, self.read(path) or b""))
        return [*unchanged, *unknown]

    def _pristine_holders(self, word: bytes) -> frozenset[str]:
        holders = self._shared.holders
        if word not in holders:
            holders[word] = self.tree.holding(word)
        return holders[word]


def written(path: str, module: cst.Module) -> bytes:
    """The bytes of a module.

    Raises:
        UnparsableFile: the file's encoding cannot write some of it.
    """
    try:
        return module.bytes
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.end]
        raise UnparsableFile(
            f"the file's encoding ({module.encoding}) cannot write {text!r} of the new code",
            where=path,
        ) from error


def _put(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keep a value, and forget the oldest: a syntax tree takes fifty times its text."""
    while len(known) >= _KEPT:
        del known[next(iter(known))]
    known[key] = value


@cache
def _matcher(globs: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    """What tells whether a path matches one of some globs."""
    return re.compile("|".join(map(translate, globs)) or r"(?!)").match


def parse(path: str, text: bytes) -> cst.Module:
    """Parse a file.

    Raises:
        UnparsableFile: it is not Python that libcst can parse.
    """
    _tree(path, text)
    return _parsed(path, text)


def _tree(path: str, text: bytes) -> ast.Module | None:
    """A file as Python's own parser reads it, if it can."""
    try:
        return measured(text)
    except NestedTooDeeplyError as error:
        where = f"{path}:{error.line}" if error.line else path
        raise UnparsableFile(str(error), where=where) from error


def _parsed(path: str, text: bytes) -> cst.Module:
    """A file as libcst reads it; it must have been measured."""
    try:
        return cst.parse_module(text)
    except (cst.ParserSyntaxError, SyntaxError, UnicodeError, LookupError) as error:
        line = getattr(error, "raw_line", None)
        where = f"{path}:{line}" if line else path
        raise UnparsableFile("is not Python that libcst can parse", where=where) from error


def lines_of(module: cst.Module) -> Mapping[cst.CSTNode, int]:
    """The line, from 1, of every node of a module."""
    from libcst.metadata import MetadataWrapper, PositionProvider  # noqa: PLC0415 - only to tell

    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return {node: position.start.line for node, position in positions.items()}
