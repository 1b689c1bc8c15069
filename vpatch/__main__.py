"""The process: `vpatch`, and `python -m vpatch`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from vpatch.cli import main


def run() -> NoReturn:
    """Run the command line, and end without clearing up memory.

    To free millions of nodes one by one costs a tenth of a second; the kernel does it at once.
    """
    try:
        main()
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # the shell may have closed it: vpatch ... >&-
                stream.flush()
        os._exit(int(end.code or 0))


if __name__ == "__main__":
    run()
