"""vpatch uninstall: an environment as it was before vpatch install."""

from __future__ import annotations

import sys

import click

from vpatch.commands.install.usecase import uninstall
from vpatch.console.options import json_option
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted


@click.command("uninstall")
@click.option(
    "--python",
    metavar="PYTHON",
    default=sys.executable,
    help="Whose vLLM to restore  [default: the Python that runs vpatch]",
)
@json_option
def command(*, python: str, as_json: bool) -> CommandResult | ExitCode:
    """Restore the files that `vpatch install` replaced.

    The files get their bytes, modes and times from before. So does RECORD. A file that somebody
    changed since the install stops it, and nothing is written.
    """
    done = uninstall(python)
    if as_json:
        from vpatch.commands.install.output import UninstallOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(UninstallOutput.model_validate(done))
    click.echo(f"{done.found}")
    click.echo(f"  {counted(len(done.files), 'file')} as before vpatch install")
    return ExitCode.CLEAN
