"""The process: `vpatch`, and `python -m vpatch`."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command line, and end without clearing up memory.

    To free millions of nodes one by one costs a tenth of a second; the kernel does it at once.
    """
    # Nothing has begun: Ctrl-C ends the process, and shows no traceback of an import.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from vpatch.main import main  # noqa: PLC0415 - as above

    try:
        main()
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # the shell may have closed it: vpatch ... >&-
                stream.flush()
        os._exit(int(end.code or 0))


if __name__ == "__main__":
    run()
