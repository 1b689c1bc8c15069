"""How much a folder takes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def disk_size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            # Another process may be at work there.
            with suppress(FileNotFoundError):
                size += (Path(parent) / name).lstat().st_size
    return size
