"""`docker build` with BuildKit, for what the API cannot do: secrets, and vLLM's Dockerfile."""

from __future__ import annotations

import logging
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from docker.utils import exclude_paths

from vpatch.errors import UnavailableError
from vpatch.util.own_environment import inherited
from vpatch.util.run_log import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.docker.build import Build

_log = logging.getLogger(__name__)
_CLIENTS_OWN = {"DOCKER_CONTEXT", "BUILDX_BUILDER"}


def refuse_no_buildkit() -> None:
    """Refuse a build for which BuildKit is missing.

    Raises:
        UnavailableError: Docker's command line is not installed.
    """
    if shutil.which("docker") is None:
        raise UnavailableError(
            "this build needs BuildKit, but Docker's command line is not on the PATH",
            hint="install docker and its buildx plugin",
            code="docker.no-buildkit",
        )


@contextmanager
def started(build: Build, result: Path, where: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a build on the engine that is `where`; it is told to end where the block breaks off.

    Raises:
        UnavailableError: Docker's command line is not installed.
    """
    refuse_no_buildkit()
    # On this engine, whatever the command line would choose by its own settings.
    ours = {k: v for k, v in inherited().items() if k not in _CLIENTS_OWN}
    command = buildkit_command(build, result)
    _log.info("%s", command_line(command))
    with subprocess.Popen(
        command,
        env=ours | {"DOCKER_BUILDKIT": "1", "DOCKER_HOST": where},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def buildkit_command(build: Build, result: Path) -> list[str]:
    """Return the command line that builds with BuildKit, and writes the image's id to a file."""
    words = ["docker", "build", "--progress", "plain", "--iidfile", str(result)]
    words += ["--file", str(build.dockerfile)]
    for name, value in (
        ("target", build.target),
        ("network", build.network),
        ("platform", build.platform),
    ):
        words += [f"--{name}", value] if value else []
    words += ["--no-cache"] if build.no_cache else []
    for secret in build.secrets:
        words += ["--secret", secret]
    for kind, values in (("build-arg", build.arguments), ("label", build.labels)):
        for name, value in values.items():
            words += [f"--{kind}", f"{name}={value}"]
    return [*words, str(build.context)]


def sent_files(context: Path) -> set[str]:
    """Return the files of a context that its .dockerignore lets an engine have."""
    file = context / ".dockerignore"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return set(exclude_paths(str(context), patterns))
