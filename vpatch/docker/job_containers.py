"""Removes the containers of a killed job: `python -m vpatch.docker.job_containers JOB`."""

from __future__ import annotations

import sys
import time
from contextlib import closing

from vpatch.docker.engine import Docker

# An engine creates a container also when whoever asked for it was killed meanwhile.
_LATE_SECONDS = 2.0


def main(job: str) -> None:
    """Remove them, and once more those that were about to be created."""
    with closing(Docker()) as docker:
        docker.remove_of_job(job)
        time.sleep(_LATE_SECONDS)
        docker.remove_of_job(job)


if __name__ == "__main__":
    main(sys.argv[1])
