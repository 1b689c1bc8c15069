"""Waiting for what other processes do: for a condition, and never for a time."""

from __future__ import annotations

import time

# Seconds. It ends a test that would wait for ever. A busy machine must never reach it.
LIMIT = 900


def until(condition, *, process=None, pause=0.05):
    """Return the first true answer of `condition()`; `process` must run until then."""
    end = time.monotonic() + LIMIT
    while not (answer := condition()):
        assert time.monotonic() < end, "nothing happened"
        assert process is None or process.poll() is None, "the process ended"
        time.sleep(pause)
    return answer
