"""Lay in a diff as GNU patch does: where a line around a hunk differs, and at another line."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from vpatch.util.plural import counted
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from vpatch.changes.file_diff import FileDiff

PROGRAM = "patch"
_MOST_SECONDS = 60
# As in: Hunk #1 succeeded at 83 with fuzz 2 (offset -3 lines).
_MOVED = re.compile(
    r"^Hunk #(\d+) succeeded at (\d+)(?: with fuzz (\d+))?(?: \(offset (-?\d+) lines?\))?\.$",
    re.MULTILINE,
)


def laid_in(diff: FileDiff, path: str, content: bytes) -> tuple[bytes, list[str]] | None:
    """What `patch` makes of a file, and where it moved hunks to; None if it does not take all.

    It also is None where there is no such program.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        return None
    with scratch_folder() as folder:
        before, after, text = (folder / name for name in ("before", "after", "diff"))
        before.write_bytes(content)
        text.write_bytes(diff.text(path).encode())
        # It reads and writes these files alone, whatever the diff names.
        options = ["--unified", "--forward", "--batch", "--no-backup-if-mismatch"]
        places = ["--reject-file=-", f"--output={after}", f"--input={text}", str(before)]
        try:
            done = subprocess.run(
                [program, *options, *places],
                cwd=folder,
                env={"LC_ALL": "C", "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode or not after.is_file():
            return None
        moves = _moves(path, done.stdout.decode(errors="replace"), diff)
        return after.read_bytes(), moves or [f"{path}: patch takes the diff, and git does not"]


def _moves(path: str, output: str, diff: FileDiff) -> list[str]:
    moves = []
    for number, line, fuzz, offset in _MOVED.findall(output):
        start = diff.hunks[int(number) - 1].start
        moved = f" ({offset} lines away)" if offset else ""
        ignored = f"; it ignored up to {counted(int(fuzz), 'line')} above and below" if fuzz else ""
        moves.append(
            f"{path}, the hunk at line {start}: patch put it at line {line}{moved}{ignored}"
        )
    return moves
