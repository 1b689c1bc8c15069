"""A tree with edits laid over it: what a patch sees, its predecessors' changes included."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.extent import Extents
from vpatch.codemods.nesting import NestedTooDeeplyError, measured
from vpatch.errors import VpatchError
from vpatch.planning.lines import pristine_lines
from vpatch.planning.outline import is_python, outline
from vpatch.planning.statements import Statements
from vpatch.util.words import has_word

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vpatch.codemods.pattern import Pattern
    from vpatch.planning.outline import Definition
    from vpatch.source.tree import Tree


_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{2,}")


class UnparsableFile(VpatchError):
    """libcst cannot parse a file, or cannot write it back byte for byte."""

    code = "planning.unparsable-file"


@dataclass
class _Shared:
    """What is known of one tree, by all views of it."""

    parsed: dict[str, cst.Module] = field(default_factory=dict)
    holders: dict[bytes, frozenset[str]] = field(default_factory=dict)
    # Paths of the files that libcst can write as they are.
    exact: set[str] = field(default_factory=set)
    extents: Extents = field(default_factory=Extents)
    vocabulary: frozenset[str] | None = None
    # As Python's own parser reads the pristine files.
    trees: dict[str, ast.Module | None] = field(default_factory=dict)
    statements: dict[str, Statements | None] = field(default_factory=dict)
    outlines: dict[str, list[Definition]] = field(default_factory=dict)
    lines: dict[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    # By the identity of the module, which is kept so that no other comes to have it.
    written: dict[int, tuple[cst.Module, bytes]] = field(default_factory=dict)


@dataclass
class View:
    """Read access to a tree as it is after some edits.

    Modules are parsed and written once, and searches of the pristine files made once, for all views
    of the same tree. A view is never changed: `over` returns a new one. `files` are replaced by
    bytes, `edited` are modules that libcst made.
    """

    tree: Tree
    files: Mapping[str, bytes] = field(default_factory=dict)
    edited: Mapping[str, cst.Module] = field(default_factory=dict)
    _shared: _Shared = field(default_factory=_Shared)
    _reparsed: dict[str, cst.Module] = field(default_factory=dict)

    @property
    def extents(self) -> Extents:
        """What the statements of its modules were parsed from."""
        return self._shared.extents

    def over(self, modules: Mapping[str, cst.Module], files: Mapping[str, bytes]) -> View:
        """The same view with modules and text files replaced.

        Raises:
            UnparsableFile: libcst would change bytes of a module that no edit touches.
        """
        for path in modules:
            self._check_exact(path)
        edited = {path: module for path, module in self.edited.items() if path not in files}
        kept = {path: text for path, text in self.files.items() if path not in modules}
        return View(self.tree, {**kept, **files}, {**edited, **modules}, self._shared)

    def reparse(self) -> View:
        """The same bytes with every edited file to be parsed anew."""
        return View(self.tree, self.changed, {}, self._shared)

    @cached_property
    def changed(self) -> Mapping[str, bytes]:
        """The bytes of every file that was replaced."""
        return {**self.files, **{path: self._written(path) for path in self.edited}}

    def read(self, path: str) -> bytes | None:
        """The file's bytes, or None where there is no such file."""
        if path in self.edited:
            return self._written(path)
        if path in self.files:
            return self.files[path]
        return self.pristine(path)

    def pristine(self, path: str) -> bytes | None:
        """The file's bytes before all edits, or None where there was no such file."""
        if path in self._package:
            return self._package[path]
        return self.tree.read(path) if path in self._paths else None

    def outline(self, path: str) -> list[Definition]:
        """What a file defines before all edits; nothing where there is no such file."""
        known = self._shared.outlines
        if path not in known:
            text = self.pristine(path)
            tree = None
            if text is not None and is_python(path):
                with suppress(UnparsableFile):
                    tree = self._tree_of(path, text)
            known[path] = [] if text is None else outline(text, python=False, parsed=tree)
        return known[path]

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

    def _written(self, path: str) -> bytes:
        module = self.edited[path]
        if id(module) not in self._shared.written:
            self._shared.written[id(module)] = (module, _bytes(path, module))
        return self._shared.written[id(module)][1]

    def _check_exact(self, path: str) -> None:
        if path in self.edited:
            return  # libcst wrote it
        pristine = path not in self.files
        if pristine and path in self._shared.exact:
            return
        text = self.read(path)
        if text is not None and self.module(path).bytes != text:
            raise UnparsableFile(
                "libcst cannot write it back byte for byte (a form feed, a bare CR, or an indented "
                "comment at its end?)",
                where=path,
            )
        if pristine:
            self._shared.exact.add(path)

    def obstacle(self, path: str) -> str | None:
        """What keeps a file from being created at `path`: a file above it, or a folder there."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        found = next((folder for folder in above if self.read(folder) is not None), None)
        if found is not None:
            return f"{found} is a file"
        link = next((name for name in (*above, path) if name in self.tree.links), None)
        if link is not None:
            return f"{link} is a symbolic link"
        folder = f"{path}/"
        if any(other.startswith(folder) for other in (*self._paths, *self._changed_paths)):
            return f"{path} is a folder"
        return None

    @cached_property
    def _package(self) -> Mapping[str, bytes]:
        return self.tree.package_files

    @cached_property
    def _unchanged(self) -> frozenset[str]:
        """Paths of the package's files that no edit replaced."""
        return frozenset(self._package) - self._changed_paths

    @cached_property
    def _own(self) -> Sequence[str]:
        return sorted(self._package)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(self.tree.paths())

    @property
    def _added_to_package(self) -> Iterator[str]:
        roots = {path.partition("/")[0] for path in self._package}
        for path in self._changed_paths:
            if path.endswith(".py") and path not in self._paths and path.partition("/")[0] in roots:
                yield path

    @property
    def _changed_paths(self) -> AbstractSet[str]:
        return self.files.keys() | self.edited.keys()

    def module(self, path: str) -> cst.Module:
        """The parsed file.

        Raises:
            UnparsableFile: it is not Python.
        """
        if path in self.edited:
            return self.edited[path]
        known = self._reparsed if path in self.files else self._shared.parsed
        if path not in known:
            text = self.read(path) or b""
            tree = self._tree_of(path, text) if known is self._shared.parsed else _tree(path, text)
            known[path] = _parsed(path, text)
            self.extents.remember(known[path], text, tree)
        return known[path]

    def _tree_of(self, path: str, text: bytes) -> ast.Module | None:
        """A pristine file as Python's own parser reads it, if it can.

        Raises:
            UnparsableFile: it is nested too deeply.
        """
        known = self._shared.trees
        if path not in known:
            known[path] = _tree(path, text)
        return known[path]

    def matching(self, globs: Sequence[str] | None) -> Sequence[str]:
        """Paths that match one of the globs; the package's Python files where there are none."""
        if globs is None:
            added = set(self._added_to_package)
            return sorted(added.union(self._own)) if added else self._own
        paths = {*self._paths, *self._changed_paths}
        return sorted(p for p in paths if any(fnmatchcase(p, glob) for glob in globs))

    def holding(
        self, needles: Sequence[frozenset[bytes]], globs: Sequence[str] | None
    ) -> list[str]:
        """Paths of the files that contain every word of one of the alternatives."""
        paths = self.matching(globs)
        found = {path for words in needles for path in self._holding_all(paths, words)}
        return sorted(found)

    def mentioning(self, paths: Sequence[str], pieces: frozenset[bytes]) -> list[str]:
        """Those of the files whose text contains every piece."""
        return [
            path
            for path in paths
            # To write an edited module costs more than to look into it.
            if path in self.edited or all(piece in (self.read(path) or b"") for piece in pieces)
        ]

    def may_have(self, path: str, pattern: Pattern) -> bool:
        """Whether a Python file may have a match of a pattern; False only if it has none."""
        if path in self._changed_paths or path in self._shared.parsed:
            return True
        known = self._shared.statements
        if path not in known:
            text = self.read(path) or b""
            tree = self._tree_of(path, text)
            known[path] = None if tree is None else Statements(text, tree)
        statements = known[path]
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
        found = wanted & self._unchanged
        if found:
            found &= self.tree.containing(text)
        return sorted([*found, *(path for path in unknown if text in (self.read(path) or b""))])

    def _holding_all(self, paths: Sequence[str], words: frozenset[bytes]) -> Sequence[str]:
        if not words:
            return paths
        wanted = frozenset(paths)
        unknown = wanted - self._unchanged
        found = wanted & self._unchanged
        # The longest word is the rarest: the others are looked for in the few files that have it.
        for word in sorted(words, key=lambda word: (-len(word), word)):
            if found:
                found &= self._pristine_holders(word)
            unknown = frozenset(path for path in unknown if self._may_have(word, path))
        return [*found, *unknown]

    def _may_have(self, word: bytes, path: str) -> bool:
        # To write an edited module costs more than to look into it.
        return path in self.edited or has_word(word, self.read(path) or b"")

    def _pristine_holders(self, word: bytes) -> frozenset[str]:
        holders = self._shared.holders
        if word not in holders:
            holders[word] = self.tree.holding(word)
        return holders[word]


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


def _bytes(path: str, module: cst.Module) -> bytes:
    try:
        return module.bytes
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.end]
        raise UnparsableFile(
            f"the file's encoding ({module.encoding}) cannot write {text!r} of the new code",
            where=path,
        ) from error


def lines_of(module: cst.Module) -> Mapping[cst.CSTNode, int]:
    """The line, from 1, of every node of a module."""
    from libcst.metadata import MetadataWrapper, PositionProvider  # noqa: PLC0415 - only to tell

    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return {node: position.start.line for node, position in positions.items()}
