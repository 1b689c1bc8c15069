"""Comments of the release that stay beside changed code, though the source did not keep them."""

from __future__ import annotations

import io
import tokenize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.changes.change import FileChange
    from vpatch.deriving.derive import DerivedEdit


def stale_comments(
    files: Sequence[FileChange], edits: Sequence[DerivedEdit], left_out: Sequence[DerivedEdit]
) -> Iterator[str]:
    """Say which comments stay, a line each: above the code of an edit, or in it.

    Args:
        files: the files of the change.
        edits: what the patch does.
        left_out: changes of comments alone, which it does not do.
    """
    for file in files:
        if file.before is None or not file.path.endswith(".py"):
            continue
        comments = _comments(file.before)
        kept = set(_comments(file.after).values())
        starts = {edit.lines[0] for edit in edits if edit.path == file.path}
        ranges = [
            edit.lines
            for edit in left_out
            if edit.path == file.path and edit.lines[1] + 1 in starts
        ]
        ranges += [e.lines for e in edits if e.path == file.path and e.gives == "code"]
        for line in sorted({n for first, last in ranges for n in range(first, last + 1)}):
            if line in comments and comments[line] not in kept:
                yield (
                    f"{file.path}:{line}: the code beside this comment changes, and the comment "
                    f"stays: {comments[line]}; --exact takes that of the source"
                )


def _comments(source: bytes) -> dict[int, str]:
    """The comments of a file by their lines, counted from 1; none of what Python cannot read."""
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return {}
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
