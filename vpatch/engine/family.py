"""The processes that carry a mark in their environment: a child and all that it started."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

_KILL_SECONDS = 30.0
_TRACKER_SECONDS = 5.0


@dataclass(frozen=True)
class ProcessFamily:
    """Processes whose environment variable `variable` is `mark`."""

    variable: str
    mark: str

    def alive(self) -> list[psutil.Process]:
        """Return those that live."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def memory(self) -> int:
        """Return the bytes that all of them hold together; what they share counts once."""
        total = 0
        for member in self.alive():
            with suppress(psutil.Error):
                total += member.memory_full_info().pss
        return total

    def kill(self) -> tuple[set[int], set[int]]:
        """Kill all of them; return the ids of all that lived, and of those that did not end.

        Python's resource trackers go last, and by themselves: they remove the shared memory of
        those that are killed.
        """
        met: set[int] = set()
        begun = time.monotonic()
        while living := self.alive():
            age = time.monotonic() - begun
            for member in living:
                if age > _TRACKER_SECONDS or not _is_tracker(member):
                    with suppress(psutil.Error):
                        member.kill()
            met |= {member.pid for member in living}
            if age > _KILL_SECONDS:
                return met, {member.pid for member in living}
            time.sleep(0.01)
        return met, set()

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return process.environ().get(self.variable) == self.mark
        except (psutil.Error, OSError):
            return False  # it ended, or is somebody else's


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False
