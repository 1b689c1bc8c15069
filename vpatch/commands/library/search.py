"""Which patches have some words: in what people wrote of them, or in the paths that they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vpatch.library.patch import Patch

_FILES = ("patch.yaml", "NOTES.md")


@dataclass(frozen=True)
class MatchingPatch:
    """A patch that has all words, and the first line that has each."""

    patch: Patch
    lines: tuple[str, ...]


def search(patches: Iterable[Patch], text: str) -> list[MatchingPatch]:
    """Find the patches that have each word of a text, in any case and anywhere.

    A patch has the words of its patch.yaml and its NOTES.md, and the paths of the files that it
    reads in any release on record.
    """
    words = text.casefold().split()
    matching = []
    for patch in patches:
        lines = _lines_with(list(_lines_of(patch)), words)
        if lines is not None:
            matching.append(MatchingPatch(patch, lines))
    return matching


def _lines_with(lines: Sequence[str], words: Sequence[str]) -> tuple[str, ...] | None:
    firsts = [next((line for line in lines if word in line.casefold()), None) for word in words]
    there = [line for line in firsts if line is not None]
    return tuple(dict.fromkeys(there)) if len(there) == len(words) else None


def _lines_of(patch: Patch) -> Iterator[str]:
    for name in _FILES:
        file = patch.folder / name
        if file.is_file():
            for line in read_file(file, LARGEST_BESIDE).decode(errors="replace").splitlines():
                yield line.strip()
    recorded = patch.shapes.shapes if patch.shapes else {}
    keys = (key for shapes in recorded.values() for shape in shapes for key in shape.definitions)
    yield from sorted({key.partition("::")[0] for key in keys})
