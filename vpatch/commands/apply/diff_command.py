"""vpatch diff: what the patches change, as a unified diff of fixed bytes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vpatch.commands.apply.diff import diff, write_series
from vpatch.console.options import FOLDER, folder_option, library_options, offline_option
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.workspace.context import Context


@click.command("diff")
@click.argument("ids", nargs=-1, metavar="[PATCH]...")
@click.option("--vllm", metavar="VERSION", help="Use the checkout of this version.")
@folder_option("--checkout", old="--to", help="Folder of the checkout.")
@click.option("--series", type=FOLDER, metavar="DIR", help="Write a file for each patch to DIR.")
@offline_option
@library_options
def command(
    ids: tuple[str, ...],
    vllm: str | None,
    checkout: Path | None,
    series: Path | None,
    context: Context,
) -> ExitCode:
    """Print what the patches of a checkout change, in one diff or in one for each PATCH."""
    if series is not None:
        click.echo("\n".join(map(str, write_series(context, ids, vllm, checkout, series))))
        return ExitCode.CLEAN
    for text in diff(context, ids, vllm, checkout):
        # For programs as it is, and for people as nothing that a terminal would obey.
        shown = text.decode(errors="surrogateescape") if sys.stdout.isatty() else text
        click.echo(shown, nl=False)
    return ExitCode.CLEAN
