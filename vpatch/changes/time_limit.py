"""A limit of time for one import: hunks and files without number would never end."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# An import of the largest pull requests takes minutes.
LONGEST_SECONDS = 3600.0
_END: ContextVar[float | None] = ContextVar("import_end", default=None)


class TimeOverError(UsageError):
    """An import runs too long."""


@contextmanager
def limited_time() -> Iterator[None]:
    """Let `check_time` stop whatever runs inside after `LONGEST_SECONDS`."""
    token = _END.set(time.monotonic() + LONGEST_SECONDS)
    try:
        yield
    finally:
        _END.reset(token)


def check_time() -> None:
    """Stop an import that runs too long; its loops ask this again and again.

    Raises:
        TimeOverError: its time is over.
    """
    end = _END.get()
    if end is not None and time.monotonic() > end:
        raise TimeOverError(
            f"the import was stopped after {LONGEST_SECONDS / 60:.0f} minutes",
            hint="import the source in several parts, or with --text, which takes less time",
            code="importing.too-slow",
        )
