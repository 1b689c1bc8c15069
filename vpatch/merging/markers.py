"""Conflict markers of git in the files of a work tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.git.merge import MARKER_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGINS = (b"<" * MARKER_SIZE + b" ", b"|" * MARKER_SIZE + b" ", b">" * MARKER_SIZE + b" ")
_BETWEEN = b"=" * MARKER_SIZE
# What a line of a marker begins with.
MARKERS = (*_BEGINS, _BETWEEN + b"\n")


@dataclass(frozen=True)
class ConflictPlace:
    """Where a conflict begins, by a line from 1."""

    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def conflict_places(path: str, text: bytes) -> Iterator[ConflictPlace]:
    """Where the conflicts of a file begin."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(_BEGINS[0]):
            yield ConflictPlace(path, number)


def marker_places(path: str, text: bytes, before: bytes) -> Iterator[ConflictPlace]:
    """The lines that look like markers of a conflict, and that the file did not have before.

    A line of `=` alone may underline a heading: it counts only where another marker is there.
    """
    known = set(before.splitlines())
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line not in known]
    markers = [number for number, line in lines if line.startswith(_BEGINS)]
    if markers:
        markers += [number for number, line in lines if line == _BETWEEN]
    yield from (ConflictPlace(path, number) for number in sorted(markers))
