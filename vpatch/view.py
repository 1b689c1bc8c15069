"""A tree with edits laid over it: what a patch sees, its predecessors' changes included."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.source.tree import Tree


class UnparsableFile(VpatchError):
    """A file that libcst cannot parse, or not write back byte for byte."""


@dataclass
class View:
    """Read access to a tree as it is after some edits.

    Modules are parsed once, and searches of the pristine files made once, for all views of the same
    tree. A view is never changed: `over` returns a new one.
    """

    tree: Tree
    changed: Mapping[str, bytes] = field(default_factory=dict)
    edited: dict[str, cst.Module] = field(default_factory=dict)
    _parsed: dict[str, cst.Module] = field(default_factory=dict)
    _holders: dict[bytes, frozenset[str]] = field(default_factory=dict)
    # Paths of the files whose bytes libcst wrote.
    _written: frozenset[str] = frozenset()

    def over(self, modules: Mapping[str, cst.Module], files: Mapping[str, bytes]) -> View:
        """The same view with modules and text files replaced."""
        edited = {path: module for path, module in self.edited.items() if path not in files}
        return View(
            self.tree,
            {**self.changed, **{p: _bytes(p, m) for p, m in modules.items()}, **files},
            {**edited, **modules},
            self._parsed,
            self._holders,
            self._written - files.keys() | modules.keys(),
        )

    def reread(self) -> View:
        """The same bytes with every edited file to be parsed anew."""
        return View(self.tree, self.changed, {}, self._parsed, self._holders, self._written)

    def read(self, path: str) -> bytes | None:
        """The file's bytes, or None where there is no such file."""
        if path in self.changed:
            return self.changed[path]
        if path in self._package:
            return self._package[path]
        return self.tree.read(path) if path in self._paths else None

    def obstacle(self, path: str) -> str | None:
        """What keeps a file from being created at `path`: a file above it, or a folder there."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        found = next((folder for folder in above if self.read(folder) is not None), None)
        if found is not None:
            return f"{found} is a file"
        folder = f"{path}/"
        if any(other.startswith(folder) for other in (*self._paths, *self.changed)):
            return f"{path} is a folder"
        return None

    @cached_property
    def _package(self) -> Mapping[str, bytes]:
        return self.tree.package_files

    @cached_property
    def _own(self) -> Sequence[str]:
        return sorted(self._package)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(self.tree.paths())

    @property
    def _added_to_package(self) -> Iterator[str]:
        roots = {path.partition("/")[0] for path in self._package}
        for path in self.changed:
            if path.endswith(".py") and path not in self._paths and path.partition("/")[0] in roots:
                yield path

    def module(self, path: str) -> cst.Module:
        """The parsed file.

        Raises:
            UnparsableFile: it is not Python, or libcst would change bytes that no edit touches.
        """
        if path in self.changed:
            if path not in self.edited:
                # Written by libcst, it need not be tried whether libcst can write it.
                self.edited[path] = parse(path, self.changed[path], exact=path not in self._written)
            return self.edited[path]
        if path not in self._parsed:
            self._parsed[path] = parse(path, self.read(path) or b"")
        return self._parsed[path]

    def matching(self, globs: Sequence[str] | None) -> Sequence[str]:
        """Paths that match one of the globs; the package's Python files where there are none."""
        if globs is None:
            added = set(self._added_to_package)
            return sorted(added.union(self._own)) if added else self._own
        paths = {*self._paths, *self.changed}
        return sorted(p for p in paths if any(fnmatchcase(p, glob) for glob in globs))

    def holding(
        self, needles: Sequence[frozenset[bytes]], globs: Sequence[str] | None
    ) -> list[str]:
        """Paths of the files that contain every word of one of the alternatives."""
        paths = self.matching(globs)
        found = {path for words in needles for path in self._holding_all(paths, words)}
        return sorted(found)

    def containing(self, text: bytes, globs: Sequence[str] | None) -> list[str]:
        """Paths of the files that contain a text."""
        if globs is None and not self.changed:
            return sorted(path for path, code in self._package.items() if text in code)
        return [path for path in self.matching(globs) if text in (self.read(path) or b"")]

    def _holding_all(self, paths: Sequence[str], words: frozenset[bytes]) -> Sequence[str]:
        if not words:
            return paths
        # The longest word is the rarest: the others are looked for in the few files that have it.
        rarest, *others = sorted(words, key=lambda word: (-len(word), word))
        holders = self._pristine_holders(rarest)
        wanted = set(paths)
        unknown = (wanted - self._package.keys()) | (wanted & self.changed.keys())
        found = [
            *((wanted & holders) - self.changed.keys()),
            *(path for path in unknown if _has_word(rarest, self.read(path) or b"")),
        ]
        for word in others:
            found = [path for path in found if _has_word(word, self.read(path) or b"")]
        return found

    def _pristine_holders(self, word: bytes) -> frozenset[str]:
        if word not in self._holders:
            package = self._package.items()
            self._holders[word] = frozenset(path for path, text in package if _has_word(word, text))
        return self._holders[word]


def _has_word(word: bytes, text: bytes) -> bool:
    # The plain search is much faster than the expression, and nearly always says no.
    return word in text and re.search(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)", text) is not None


def parse(path: str, text: bytes, *, exact: bool = True) -> cst.Module:
    try:
        module = cst.parse_module(text)
    except (cst.ParserSyntaxError, SyntaxError, UnicodeDecodeError) as error:
        line = getattr(error, "raw_line", None)
        where = f"{path}:{line}" if line else path
        raise UnparsableFile("is not Python that libcst can parse", where=where) from error
    if exact and module.bytes != text:
        raise UnparsableFile(
            "libcst cannot write it back byte for byte (a form feed, a bare CR, or an indented "
            "comment at its end?)",
            where=path,
        )
    return module


def _bytes(path: str, module: cst.Module) -> bytes:
    try:
        return module.bytes
    except UnicodeEncodeError as error:
        text = error.object[error.start : error.end]
        raise UnparsableFile(
            f"the new code has {text!r}, which the file's encoding ({module.encoding}) has not",
            where=path,
        ) from error


def lines_of(module: cst.Module) -> Mapping[cst.CSTNode, int]:
    """The line, from 1, of every node of a module."""
    from libcst.metadata import MetadataWrapper, PositionProvider  # noqa: PLC0415 - only to tell

    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return {node: position.start.line for node, position in positions.items()}
