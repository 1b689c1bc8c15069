"""A child process that ends in time, and leaves none of its own behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from vpatch.errors import UnavailableError
from vpatch.util.own_environment import inherited
from vpatch.util.run_log import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.engine.family import ProcessFamily

_log = logging.getLogger(__name__)
# Where the output is shown to somebody: the end says what went wrong.
_TAIL = 30
# What a child starts inherits it, also where it makes a session of its own, and its parent is gone.
_MARK = "VPATCH_RUN"
# setproctitle, which vLLM calls, writes its titles over the environment otherwise.
_KEPT = {"SPT_NOENV": "1"}


class ProcessError(UnavailableError):
    """A process does not end."""

    code = "engine.process-does-not-end"


class LogError(UnavailableError):
    """The output of a command cannot be kept, so nobody can judge how it ran."""

    code = "engine.log-lost"


@dataclass(frozen=True)
class Ended:
    """`code` is the exit status, negative for a signal; None where the time ran out."""

    code: int | None
    log: Path

    @property
    def ending(self) -> str:
        """The last lines of what the process printed."""
        return "\n".join(last_lines(self.log, _TAIL))


class Running(Protocol):
    """A command that was started, here or elsewhere, with all that it started itself."""

    @property
    def log(self) -> Path:
        """The file that has what it prints."""

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""

    def wait(self, seconds: float) -> int | None:
        """Return its exit status; None where it still runs after that time."""

    def signal(self, number: int) -> None:
        """Send a signal to it, and not to what it started."""

    def left(self) -> int:
        """Return how many processes of it there are still."""

    def memory(self) -> int:
        """Return the bytes that all of them hold together."""


@dataclass(frozen=True)
class Child:
    """A process that runs, and what it started."""

    process: subprocess.Popen[bytes]
    log: Path
    mark: str

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def left(self) -> int:
        return len(self.family.alive())

    def memory(self) -> int:
        return self.family.memory()

    def kill(self) -> int:
        """End all of them at once; return how many there were besides the child itself.

        Raises:
            ProcessError: one of them cannot be killed.
        """
        ended, stuck = self.family.kill()
        if stuck:
            raise ProcessError(
                f"these processes cannot be killed: {', '.join(map(str, sorted(stuck)))}",
                hint="find out what they wait for; a driver may need a reset",
            )
        return len(ended - {self.process.pid})

    @cached_property
    def family(self) -> ProcessFamily:
        """The process and all that it started."""
        from vpatch.engine.family import ProcessFamily  # noqa: PLC0415 - psutil is of the extra `engine`

        return ProcessFamily(_MARK, self.mark)


@contextmanager
def started(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """Start a command in a session of its own; `log` has its output.

    What it started is killed with it, however the block ends: an engine's workers outlive it.
    """
    mark = uuid.uuid4().hex
    begun = time.monotonic()
    _log.info("starting, with the output in %s: %s", log, command_line(command))
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=inherited(environment) | {_MARK: mark} | _KEPT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        child = Child(process, log, mark)
        try:
            yield child
        finally:
            child.kill()
            # In between fork and exec the mark is not there yet, and the group is.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            seconds = time.monotonic() - begun
            _log.info("process %d ended with %s: %.2f s", process.pid, process.poll(), seconds)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    log: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command for at most `timeout` seconds; see `started`."""
    with started(command, cwd=cwd, log=log, environment=environment) as child:
        return Ended(child.wait(timeout), log)


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines of a log; how long it is does not matter."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - count * 1000))
        return file.read().decode(errors="replace").splitlines()[-count:]
