"""Atomic writing of files."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(path: Path, text: str, *, workdir: Path | None = None) -> None:
    """Write a file so that no reader ever sees half of it. Its mode stays what it was.

    The unfinished part is written beside the file, or in `workdir`, which must be in the same file
    system. A kill leaves it there.
    """
    # From the source that `secrets` uses, whose import takes longer than all of this.
    ours = f"{os.getpid()}-{os.urandom(4).hex()}"
    part = (workdir or path.parent) / f".{path.name}.{ours}.part"
    try:
        with part.open("x", encoding="utf-8") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(text)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
