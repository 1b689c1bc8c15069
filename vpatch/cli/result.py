"""How a command ended: its exit code, and with `--json` the one document that is printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from vpatch.errors import ExitCode, VpatchError

if TYPE_CHECKING:
    from vpatch.output.base import OutputModel


class InterruptedRunError(VpatchError):
    """The user, or the machine, ended the run."""

    exit_code = ExitCode.INTERRUPTED
    code = "cli.interrupted"


class VpatchFaultError(VpatchError):
    """An error that nobody raised on purpose."""

    exit_code = ExitCode.FAULT
    code = "cli.fault"


@dataclass(frozen=True)
class CommandResult:
    """What a command returns with `--json`; one that prints text returns its exit code alone.

    `errors` are what stopped the command, or a part of its work.
    """

    result: OutputModel | None
    code: int = ExitCode.CLEAN
    errors: tuple[VpatchError, ...] = ()


def print_document(command: str, answer: CommandResult) -> None:
    # `vpatch --help` needs no pydantic.
    from vpatch.output.base import document  # noqa: PLC0415

    found = document(command, int(answer.code), answer.result, answer.errors)
    click.echo(json.dumps(found, indent=2))
