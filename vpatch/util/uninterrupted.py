"""Steps that are done together, so that Ctrl-C does not cut them off half-way."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: the renames are few, and done together.

    By handlers, as a mask is a thread's own, and another thread would take the signal. Handlers
    run in the main thread alone: no other is ever interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # What the caller ignores, as nohup does with SIGHUP, stays ignored.
    before = {
        number: signal.signal(number, note)
        for number in endings
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for ending in came:
            signal.raise_signal(ending)
