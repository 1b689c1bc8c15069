"""A file and its mode, as git stores them."""

from __future__ import annotations

from typing import NamedTuple

REGULAR = 0o100644


EXECUTABLE = 0o100755


SYMLINK = 0o120000


class SourceFile(NamedTuple):
    """A file on its way into the cache; the data of a symbolic link is its target."""

    path: str
    mode: int
    data: bytes
