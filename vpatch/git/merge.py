"""git for three sides of a file: two changes of the same bytes, laid together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.git.command import run
from vpatch.git.errors import GitError

if TYPE_CHECKING:
    from pathlib import Path

# git ends with the number of conflicts, up to this.
_MOST_CONFLICTS = 127
MARKER_SIZE = 7


@dataclass(frozen=True)
class MergedFile:
    """What git makes of three sides. What is left has conflict markers around it."""

    content: bytes
    conflicts: int


@dataclass(frozen=True)
class SideLabels:
    """What the markers say of the three sides."""

    ours: str
    base: str
    theirs: str


def merge_file(
    folder: Path, ours: bytes, base: bytes, theirs: bytes, labels: SideLabels
) -> MergedFile | None:
    """Lay the change from `base` to `theirs` into `ours`; None for what has no lines.

    `folder` is an empty one, for the three files.
    """
    if any(b"\0" in side for side in (ours, base, theirs)):
        return None
    places = [folder / name for name in ("ours", "base", "theirs")]
    for place, content in zip(places, (ours, base, theirs), strict=True):
        place.write_bytes(content)
    named = [word for text in (labels.ours, labels.base, labels.theirs) for word in ("-L", text)]
    # It runs where there is no repository, and without settings of anybody.
    options = ["--quiet", "--diff3", f"--marker-size={MARKER_SIZE}", *named]
    conflicts = 0
    try:
        run(None, "merge-file", *options, *(os.fspath(place.absolute()) for place in places))
    except GitError as error:
        if error.status is None or not 0 < error.status <= _MOST_CONFLICTS:
            raise
        conflicts = error.status
    return MergedFile(places[0].read_bytes(), conflicts)
