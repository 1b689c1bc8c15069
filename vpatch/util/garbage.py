"""How often Python looks for garbage."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Syntax trees are millions of objects without cycles, so old objects are hardly ever worth a look.
# Young ones are: polling a server for hours makes cycles, and without collection they add up.
_THRESHOLDS = (10_000, 50, 1_000)


def collect_rarely() -> None:
    """Look at old objects hardly ever."""
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Look at old objects hardly ever in here: a script has Python's own thresholds."""
    thresholds = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
