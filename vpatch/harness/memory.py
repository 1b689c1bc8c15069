"""How much memory a child and its own children hold at their peak, and the GPUs beside them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.harness.machine import gpu_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.engine.process import Running

_SECONDS = 1.0


@dataclass
class Peak:
    """The most that was seen so far, in bytes. `gpus` is all that is in use on all of them."""

    host: int = 0
    gpus: int | None = None


@contextmanager
def watched_memory(child: Running) -> Iterator[Peak]:
    """Look every second, as long as the block runs."""
    peak, ended = Peak(), threading.Event()

    def look() -> None:
        while not ended.wait(_SECONDS):
            peak.host = max(peak.host, child.memory())
            used = gpu_memory()
            if used is not None:
                peak.gpus = max(peak.gpus or 0, used)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
