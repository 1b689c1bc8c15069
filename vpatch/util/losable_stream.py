"""A stream that a run goes on without."""

from __future__ import annotations

import io
import os


class LosableStream(io.TextIOWrapper):
    """Writes to the null device once its reader is gone or its disk is full.

    What a run did is on standard output and in the exit code.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            self._lose()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self._lose()

    def _lose(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)
