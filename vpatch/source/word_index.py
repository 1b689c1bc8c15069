"""Which files of a tree's package have which words: made once, kept beside the tree's manifest.

A file of the index has a line with the format, the key and the digest of the rest. The rest are
four parts: a header of numbers, the words (sorted, each between two line feeds), the place of each
word, and the numbers of the files that have it. So a search reads no more than it needs.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from vpatch.util.filelock import wait_for_lock
from vpatch.util.run_log import timed
from vpatch.util.words import WORDS, has_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_log = logging.getLogger(__name__)
_FILE = "words"
# Raise it whenever the bytes below, or what a word is, change.
_FORMAT = 1
# How many words, how many bytes they take, and how many bytes a file's number takes.
_SMALL = 2
_HEADER = struct.Struct("<III")
_PLACE: Final = "I"
_MANY = 1 << 16


class WordIndex:
    """The words of a package's files. `paths` are the files, in the order of their numbers."""

    def __init__(self, body: bytes, paths: Sequence[str]) -> None:
        self._paths = paths
        count, length, width = _HEADER.unpack_from(body)
        view, start = memoryview(body), _HEADER.size
        self._words = body[start : start + length]
        start += length
        table = (count + 1) * array(_PLACE).itemsize
        self._starts = view[start : start + table].cast(_PLACE)
        start += table
        self._firsts = view[start : start + table].cast(_PLACE)
        numbers = view[start + table :]
        self._numbers = numbers.cast("H") if width == _SMALL else numbers.cast("I")

    def words(self) -> list[bytes]:
        """Every word, sorted."""
        return WORDS.findall(self._words)

    def with_word(self, word: bytes) -> frozenset[str]:
        """Return the files that have one word of the index."""
        index = self._index(word)
        return frozenset() if index is None else self._files([index])

    def with_piece(self, piece: bytes) -> frozenset[str]:
        """Return the files with a word that has a piece. A line feed is the word's start or end."""
        indices: list[int] = []
        at = self._words.find(piece)
        while at >= 0:
            # A line feed at the start belongs to the word that follows it.
            index = bisect_right(self._starts, at + piece.startswith(b"\n")) - 1
            indices.append(index)
            at = self._words.find(piece, self._starts[index + 1] - 1)
        return self._files(indices)

    def narrowed(self, text: bytes, *, complete: bool) -> frozenset[str] | None:
        """Return the files that may contain a text: no file outside of these does.

        None where the index cannot tell, as the text has no word. `complete` says that the words
        at the start and the end of the text are whole ones, and no pieces.
        """
        whole, pieces = [], []
        for match in WORDS.finditer(text):
            whole_start = complete or match.start() > 0
            whole_end = complete or match.end() < len(text)
            if whole_start and whole_end:
                whole.append(match[0])
            else:
                pieces.append(b"\n" * whole_start + match[0] + b"\n" * whole_end)
        if whole:
            return frozenset.intersection(*map(self.with_word, whole))
        return self.with_piece(max(pieces, key=len)) if pieces else None

    def _index(self, word: bytes) -> int | None:
        def at(index: int) -> bytes:
            return self._words[self._starts[index] : self._starts[index + 1] - 1]

        count = len(self._starts) - 1
        place = bisect_left(range(count), word, key=at)
        return place if place < count and at(place) == word else None

    def _files(self, words: Sequence[int]) -> frozenset[str]:
        numbers: set[int] = set()
        for index in words:
            numbers.update(self._numbers[self._firsts[index] : self._firsts[index + 1]])
        return frozenset(self._paths[number] for number in numbers)


def files_with_word(index: WordIndex, files: Mapping[str, bytes], word: bytes) -> frozenset[str]:
    """Return the files that have a word, as `has_word` says. It may be of any bytes."""
    if WORDS.fullmatch(word):
        return index.with_word(word)
    candidates = index.narrowed(word, complete=True)
    paths = files.keys() if candidates is None else candidates
    return frozenset(path for path in paths if has_word(word, files[path]))


def files_with_text(index: WordIndex, files: Mapping[str, bytes], text: bytes) -> frozenset[str]:
    """Return the files that contain a text, which may start or end within a word."""
    if WORDS.fullmatch(text):
        return index.with_piece(text)
    candidates = index.narrowed(text, complete=False)
    paths = files.keys() if candidates is None else candidates
    return frozenset(path for path in paths if text in files[path])


def dump(files: Mapping[str, bytes]) -> bytes:
    """Return the index of some files, whose order gives each its number."""
    holders: defaultdict[bytes, list[int]] = defaultdict(list)
    for number, text in enumerate(files.values()):
        for word in set(WORDS.findall(text)):
            holders[word].append(number)
    words = sorted(holders)
    numbers = array("H" if len(files) <= _MANY else "I")
    joined = b"\n" + b"".join(word + b"\n" for word in words)
    starts = array(_PLACE, accumulate((len(word) + 1 for word in words), initial=1))
    firsts = array(_PLACE, accumulate((len(holders[word]) for word in words), initial=0))
    for word in words:
        numbers.extend(holders[word])
    header = _HEADER.pack(len(words), len(joined), numbers.itemsize)
    return b"".join((header, joined, starts.tobytes(), firsts.tobytes(), numbers.tobytes()))


def key_of(manifest: str, paths: Sequence[str]) -> str:
    """Return what the index of an entry is known by: its manifest's digest and its files."""
    return hashlib.sha256(
        "\0".join([manifest, *paths]).encode(errors="surrogateescape")
    ).hexdigest()


def write(folder: Path, key: str, files: Mapping[str, bytes]) -> WordIndex:
    """Make the index of an entry. Nobody else may do so at the same time.

    Raises:
        OSError: it cannot be written.
    """
    with timed(_log, logging.INFO, f"making the index of the words of {folder.name}"):
        body = dump(files)
    part = folder / f"{_FILE}.part"  # after a kill it stays, and the next one is written over it
    with part.open("wb") as file:
        file.write(_title(key, body))
        file.write(body)
    part.replace(folder / _FILE)
    return WordIndex(body, list(files))


def load(folder: Path, key: str, paths: Sequence[str]) -> WordIndex | None:
    """Read the index of an entry; None where it is missing, damaged, or of something else."""
    try:
        title, _, body = (folder / _FILE).read_bytes().partition(b"\n")
    except OSError:
        return None
    return WordIndex(body, paths) if title + b"\n" == _title(key, body) else None


def load_or_make(folder: Path, key: str, files: Mapping[str, bytes]) -> WordIndex | None:
    """Read the index of an entry, or make it; None where nothing can be written there."""
    paths = list(files)
    index = load(folder, key, paths)
    if index is not None:
        return index
    try:
        # Not the entry's own lock: readers of the entry, we among them, share that one.
        lock = wait_for_lock(folder / f"{_FILE}.lock", exclusive=True, on_wait=lambda: None)
        with lock:
            return load(folder, key, paths) or write(folder, key, files)
    except OSError as error:
        _log.info(
            "no index of the words can be kept in %s, so all files are searched: %s", folder, error
        )
        return None


def _title(key: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"words {_FORMAT} {sys.byteorder} {key} {digest}\n".encode()
