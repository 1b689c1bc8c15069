"""What a patch puts into a real vLLM so that it fails: in whichever process runs the model."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path

_CALLS = itertools.count(1)
# The profiling run and the warm-up come first.
_AFTER = 6


def planted() -> None:
    fault, call = os.environ.get("PLANTED"), next(_CALLS)
    if call <= _AFTER:
        return
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        sys.stderr.write("planted: it hangs\n")
        time.sleep(3600)
    if fault == "tamper" and call == _AFTER + 1:
        with Path(__file__).open("a") as file:
            file.write("# tampered with\n")
