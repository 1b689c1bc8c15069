"""Progress that the log has, too."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from vpatch.util.log_output import SHOWN

if TYPE_CHECKING:
    from vpatch.progress import Progress, Task

_log = logging.getLogger(__name__)


class LoggedProgress:
    """Shows progress somewhere, and logs it with the time that each task took."""

    def __init__(self, shown: Progress) -> None:
        self.shown = shown

    def start(self, what: str, *, total: int | None = None, unit: str = "bytes") -> Task:
        _log.info("%s", what, extra=SHOWN)
        return _LoggedTask(what, self.shown.start(what, total=total, unit=unit))

    def note(self, message: str) -> None:
        _log.warning("note: %s", message, extra=SHOWN)
        self.shown.note(message)


class _LoggedTask:
    def __init__(self, what: str, shown: Task) -> None:
        self.what = what
        self.shown = shown
        self.begun = time.monotonic()

    def resize(self, total: int) -> None:
        self.shown.resize(total)

    def advance(self, amount: int) -> None:
        self.shown.advance(amount)

    def describe(self, item: str) -> None:
        self.shown.describe(item)

    def done(self) -> None:
        self.shown.done()
        _log.info("%s: %.2f s", self.what, time.monotonic() - self.begun)
