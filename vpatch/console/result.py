"""How a command ended: its exit code, and with `--json` the one document that is printed."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import click

from vpatch.errors import ExitCode, UnavailableError, VpatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.console.document import OutputModel


class InterruptedRunError(VpatchError):
    """The user, or the machine, ended the run."""

    exit_code = ExitCode.INTERRUPTED
    code = "cli.interrupted"


class VpatchFaultError(VpatchError):
    """An error that nobody raised on purpose."""

    exit_code = ExitCode.FAULT
    code = "cli.fault"


@dataclass(frozen=True)
class Successor:
    """The program that takes the place of vpatch's process: its path, its words and environment."""

    program: str
    words: tuple[str, ...]
    environment: Mapping[str, str]

    def start(self) -> NoReturn:
        """Become this program.

        Raises:
            UnavailableError: the system does not start it.
        """
        # Python ignores these two, and a program inherits what is ignored.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execve(self.program, self.words, self.environment)  # noqa: S606 - the user's command
        except OSError as error:
            raise UnavailableError(
                f"the system does not start it: {error.strerror}",
                where=self.program,
                hint="start it without vpatch to see why",
                code="cli.not-started",
            ) from error


@dataclass(frozen=True)
class CommandResult:
    """What a command returns with `--json`; one that prints text returns its exit code alone.

    `errors` are what stopped the command, or a part of its work. `then` starts when all else is
    done.
    """

    result: OutputModel | None
    code: int = ExitCode.CLEAN
    errors: tuple[VpatchError, ...] = ()
    then: Successor | None = None


def print_document(command: str, answer: CommandResult) -> None:
    # `vpatch --help` needs no pydantic.
    from vpatch.console.document import document  # noqa: PLC0415

    content = document(command, int(answer.code), answer.result, answer.errors)
    click.echo(json.dumps(content, indent=2))
