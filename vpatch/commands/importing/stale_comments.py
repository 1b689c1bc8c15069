"""Comments of the release that stay beside changed code, though the source did not keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.deriving.code import comments_of

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
        comments = dict(comments_of(file.before.decode("utf-8-sig")))
        remaining = {text for _, text in comments_of(file.after.decode("utf-8-sig"))}
        starts = {edit.lines[0] for edit in edits if edit.path == file.path}
        ranges = [
            edit.lines
            for edit in left_out
            if edit.path == file.path and edit.lines[1] + 1 in starts
        ]
        ranges += [e.lines for e in edits if e.path == file.path and e.gives == "code"]
        for line in sorted({n for first, last in ranges for n in range(first, last + 1)}):
            if line in comments and comments[line] not in remaining:
                yield (
                    f"{file.path}:{line}: the code beside this comment changes, and the comment "
                    f"stays: {comments[line]}; --exact takes that of the source"
                )
