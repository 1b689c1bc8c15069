"""Give all files of the image that a step wrote one time: layers keep it, and no build has another.

    python3 settle.py SINCE SOURCE_DATE_EPOCH

SINCE is when the step began, in seconds. What the engine mounts is not of the image, and stays.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    since, epoch = int(sys.argv[1]), int(sys.argv[2])
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    mounts = {line.split()[4] for line in lines} - {"/"}
    for path in below("/", mounts):
        if os.lstat(path).st_mtime >= since:
            os.utime(path, (epoch, epoch), follow_symlinks=False)


def below(folder: str, mounts: set[str]) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path in mounts:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from below(entry.path, mounts)
            else:
                yield entry.path
    yield folder


if __name__ == "__main__":
    main()
