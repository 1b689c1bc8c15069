"""Removing what the cache has of engines."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def removing(folder: Path) -> Iterator[None]:
    """Say what to do where a folder cannot be removed.

    Raises:
        UnavailableError: the disk, or permissions.
    """
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"it cannot be removed: {error}",
            where=str(folder),
            hint="remove it by hand",
            code="engine.not-removed",
        ) from error
