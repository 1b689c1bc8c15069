"""A child process that ends in time, and leaves none of its own behind."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Where the output is shown to somebody: the end says what went wrong.
_TAIL = 30


@dataclass(frozen=True)
class Ended:
    """`code` is the exit status, negative for a signal; None where the time ran out."""

    code: int | None
    log: Path

    @property
    def ending(self) -> str:
        """The last lines of what the process printed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_TAIL:])


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    log: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command in a session of its own, for at most `timeout` seconds; `log` has its output.

    What it started is killed with it, however it ends, unless it made a process group of its own:
    an engine's workers outlive a test that fails.
    """
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=dict(os.environ if environment is None else environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Ended(code, log)
