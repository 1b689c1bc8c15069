"""Cells in a container: a patched image runs as it is, and nothing is laid over it."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.engine.process import LogError
from vpatch.errors import VpatchError
from vpatch.harness.sandbox import own_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from io import FileIO

    from vpatch.docker.container import Container
    from vpatch.docker.engine import Docker

# What tensor parallel workers and a server's processes hand each other lies there; docker's own
# limit, 64 MB, ends them. It is a limit, and nothing that is taken.
_SHARED_MEMORY = 16 * 2**30
_SIGNALLED = 128
_LOG_SECONDS = 10.0


@dataclass(frozen=True)
class ContainerSandbox:
    """The Python of an image; see `Sandbox`. Its containers are on this machine's network.

    `folders` are those that they see, each at the same path: `rw` or `ro`.
    """

    docker: Docker
    image: str
    digests: Mapping[str, str]
    folders: Mapping[str, str]
    gpus: bool = False
    python: Path = field(default=Path("python3"))

    @contextmanager
    def started(
        self,
        command: Sequence[str | Path],
        *,
        workdir: Path,
        log: Path,
        extra_env: Mapping[str, str],
    ) -> Iterator[Contained]:
        from vpatch.docker.container import ContainerConfig  # noqa: PLC0415 - of the extra `image`

        # A job of a cluster: its guard kills processes with this variable, and Ray chose the GPUs.
        is_job = "VPATCH_JOB" in os.environ
        of_job = ("VPATCH_JOB", "CUDA_VISIBLE_DEVICES") if is_job else ()
        config = ContainerConfig(
            # Whoever has no entry among the image's users still has a name and a home.
            environment=own_variables(workdir)
            | {name: os.environ[name] for name in of_job if name in os.environ}
            | {"HOME": str(workdir), "USER": "vpatch", **extra_env},
            folders={**self.folders, str(workdir): "rw"},
            folder=str(workdir),
            network="host",
            user=f"{os.getuid()}:{os.getgid()}",
            gpus=self.gpus,
            shared_memory=_SHARED_MEMORY,
        )
        words = [str(word) for word in command]
        with (
            self.docker.container(self.image, words, config) as container,
            # Unbuffered: to close it must not fail once more with what a full disk did not take.
            log.open("wb", buffering=0) as output,
        ):
            container.start()
            copy = _Copy(container, output)
            copy.start()
            try:
                yield Contained(container, log, copy)
            finally:
                container.end()
                copy.join(_LOG_SECONDS)

    def verify(self) -> None:
        """Nothing outside of a container can write to its files, and the next one is a new one."""


@dataclass(frozen=True)
class Contained:
    """A command in a container, which ends with it and takes all else in there along."""

    container: Container
    log: Path
    copy: _Copy

    def poll(self) -> int | None:
        self._refuse_without_log()
        return self._exit_code(self.container.state())

    def wait(self, seconds: float) -> int | None:
        return self._exit_code(self.container.wait(seconds))

    def signal(self, number: int) -> None:
        self.container.signal(number)

    def left(self) -> int:
        """Return 0 once it ended: the kernel ends every process of a container with its first."""
        return 0 if self.container.state() is not None else 1

    def memory(self) -> int:
        return self.container.memory()

    def _exit_code(self, code: int | None) -> int | None:
        """An exit status as a process of this machine has it, once its log is whole."""
        if code is None:
            return None
        self.copy.join(_LOG_SECONDS)
        self._refuse_without_log()
        return _SIGNALLED - code if code > _SIGNALLED else code

    def _refuse_without_log(self) -> None:
        if self.copy.error is not None:
            raise self.copy.error


class _Copy(threading.Thread):
    """Copies what a container says to a file, as it comes."""

    def __init__(self, container: Container, output: FileIO) -> None:
        super().__init__(daemon=True)
        self.container = container
        self.output = output
        self.error: LogError | None = None

    def run(self) -> None:
        try:
            for piece in self.container.output():
                self._write(piece)
        except VpatchError as error:
            self._fail(error.what)
        except OSError as error:
            self._fail(error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must hear of it
            self._fail(f"{type(error).__name__}: {error}")

    def _write(self, piece: bytes) -> None:
        while piece:
            piece = piece[self.output.write(piece) :]

    def _fail(self, why: str) -> None:
        """Note it, and end the container: nobody should wait for what cannot be judged."""
        self.error = LogError(
            f"the log of a container cannot be copied: {why}",
            where=str(self.output.name),
            hint="free space there, check that Docker still runs, then run the command again",
        )
        with suppress(VpatchError):
            self.container.end()
