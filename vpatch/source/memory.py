"""A tree held in memory: what examples are run on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.source.lazy_files import LazyFiles
from vpatch.source.searched import SearchedTree, files_with_text, files_with_word, words_of
from vpatch.util.digest import digest_of, digest_of_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.source.tree import Pin, Tree


@dataclass(frozen=True)
class MemoryTree(SearchedTree):
    """Implements `Tree` over a mapping of paths to bytes; all of its Python is the package."""

    pin: Pin
    files: Mapping[str, bytes]
    carried: frozenset[str] = field(default=frozenset())
    links: frozenset[str] = field(default=frozenset())

    @cached_property
    def package_files(self) -> Mapping[str, bytes]:
        return {path: text for path, text in self.files.items() if path.endswith(".py")}

    def paths(self) -> list[str]:
        return sorted(self.files)

    def read(self, path: str) -> bytes:
        return self.files[path]


@dataclass(frozen=True)
class ChangedTree:
    """Implements `Tree` over another tree, with some files replaced or added, and some left out.

    `carried` are the patches that did so, as a lock in the tree would say. `made_of` is the pin of
    the other tree if that is pristine, and nobody but these patches changed it.
    """

    tree: Tree
    files: Mapping[str, bytes]
    carried: frozenset[str]
    left_out: frozenset[str] = field(default=frozenset())
    made_of: Pin | None = None

    @cached_property
    def pin(self) -> Pin:
        """The pin of the other tree, with a digest of the changes as well: it tells the content."""
        text = f"{self.tree.pin.digest} {digest_of_files(self.files)}"
        return replace(self.tree.pin, digest=digest_of(text.encode()))

    @property
    def links(self) -> frozenset[str]:
        return self.tree.links

    @cached_property
    def package_files(self) -> Mapping[str, bytes]:
        paths = dict.fromkeys([*self.tree.package_files, *self._changes])
        return LazyFiles([path for path in paths if path not in self.left_out], self.read)

    @cached_property
    def _changes(self) -> Mapping[str, bytes]:
        roots = {path.partition("/")[0] for path in self.tree.package_files}
        return {
            path: text
            for path, text in self.files.items()
            if path.endswith(".py") and path.partition("/")[0] in roots
        }

    def holding(self, word: bytes) -> frozenset[str]:
        pristine = self.tree.holding(word) - self._changes.keys() - self.left_out
        return pristine | files_with_word(self._changes, word)

    def containing(self, text: bytes) -> frozenset[str]:
        pristine = self.tree.containing(text) - self._changes.keys() - self.left_out
        return pristine | files_with_text(self._changes, text)

    def words(self) -> Iterable[bytes]:
        return words_of(self.package_files)

    def paths(self) -> list[str]:
        return sorted({*self.tree.paths(), *self.files} - self.left_out)

    def read(self, path: str) -> bytes:
        return self.files[path] if path in self.files else self.tree.read(path)


def made_of(tree: Tree) -> Pin | None:
    """The pin of the pristine tree that patches alone turned into this one; None if unknown."""
    return tree.made_of if isinstance(tree, ChangedTree) else None
