"""The log of an image build."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from vpatch.image.context import release_of
from vpatch.util.os_errors import cannot_write
from vpatch.workspace.checkout import hide_from_git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.checkout.lockfile import ImageMode, LockFile
    from vpatch.workspace.context import Context

_DIGITS = 12
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Before what `install.py` reports in the image.
_SAYS = "verified: "


def log_path_of(context: Context, lock: LockFile, mode: ImageMode) -> Path:
    hide_from_git(context.checkouts)
    # By the commit of the patched tree: the lock of the image is known only after the build.
    return context.checkouts / f"build-image-{release_of(lock)}-{lock.head[:_DIGITS]}-{mode}.log"


def _without_links(path: str, _flags: int) -> int:
    return os.open(path, _LOG_FLAGS, 0o666)


@contextmanager
def opened_log(path: Path) -> Iterator[BinaryIO]:
    try:
        # A project may have put a link there, to have a file of the user's overwritten.
        log = open(path, "wb", opener=_without_links)  # noqa: SIM115 - for the opener
    except OSError as error:
        raise cannot_write(
            "the log",
            error,
            where=str(path),
            hint="free space or correct the permissions; if it is a link or a pipe, remove it",
        ) from error
    with log:
        yield log


def verified_by_build(log: Path) -> list[str]:
    """What the last step said of itself; nothing where the engine had its layer already."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    messages = [line for line in lines if line.startswith(_SAYS)]
    return [line.removeprefix(_SAYS) for line in messages] or [
        "when this layer was made, by an earlier build"
    ]
