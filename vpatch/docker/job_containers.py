"""Removes the containers of a killed job: `python -m vpatch.docker.job_containers JOB`."""

from __future__ import annotations

import sys
import time
from contextlib import closing

from vpatch.docker.engine import Docker
from vpatch.errors import VpatchError

# An engine creates a container even if the process that asked for it was killed meanwhile.
_LATE_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_EMPTY_LOOKS = 3


def main(job: str) -> None:
    """Remove them, until none is there several times in a row, or the time is over."""
    end, empty = time.monotonic() + _LATE_SECONDS, 0
    with closing(Docker()) as docker:
        while empty < _EMPTY_LOOKS and time.monotonic() < end:
            try:
                empty = 0 if docker.remove_of_job(job) else empty + 1
            except VpatchError:
                empty = 0  # try again: it may be busy
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
