"""Trees without an index of their words: each question searches the package's bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from vpatch.util.words import WORDS, has_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SearchedTree(ABC):
    """Answers what `Tree` says of words, for a tree that has its package's files at hand."""

    @property
    @abstractmethod
    def package_files(self) -> Mapping[str, bytes]:
        """The Python files of the importable package."""

    def holding(self, word: bytes) -> frozenset[str]:
        return files_with_word(self.package_files, word)

    def containing(self, text: bytes) -> frozenset[str]:
        return files_with_text(self.package_files, text)

    def words(self) -> Iterable[bytes]:
        return words_of(self.package_files)


def files_with_word(files: Mapping[str, bytes], word: bytes) -> frozenset[str]:
    return frozenset(path for path, text in files.items() if has_word(word, text))


def files_with_text(files: Mapping[str, bytes], wanted: bytes) -> frozenset[str]:
    return frozenset(path for path, text in files.items() if wanted in text)


def words_of(files: Mapping[str, bytes]) -> frozenset[bytes]:
    return frozenset(word for text in files.values() for word in WORDS.findall(text))
