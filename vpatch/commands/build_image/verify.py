"""Whether an image has what its lock says."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import read_lock
from vpatch.docker.engine import Docker
from vpatch.image.verify import verify_image

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.image.verify import Verified
    from vpatch.workspace.context import Context


def verify(context: Context, image: str, lock: Path | None) -> Verified:
    """Compare an image with a lock, by default with the one in it; see `verify_image`.

    Raises:
        UnavailableError: there is no Docker Engine.
        VpatchError: there is no such image, or the lock cannot be read.
    """
    expected = None if lock is None else read_lock(lock)
    with closing(Docker()) as docker:
        return verify_image(docker, image, expected, context.progress)
