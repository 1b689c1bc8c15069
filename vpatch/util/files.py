"""Atomic writing of files."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from vpatch.util.scratch import open_part


def replace_file(path: Path, text: str, *, workdir: Path | None = None) -> None:
    """Write a file so that no reader ever sees half of it. Its mode stays what it was.

    The unfinished part is written beside the file, or in `workdir`, which must be in the same file
    system. A kill leaves it there; the next file that is written there removes it.

    Raises:
        OSError: it cannot be written; the error names the file.
    """
    try:
        with open_part((workdir or path.parent) / path.name) as file:
            part = Path(file.name)
            try:
                with suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                file.write(text.encode())
                file.flush()
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        # A full disk does not say which.
        error.filename = error.filename or str(path)
        raise
