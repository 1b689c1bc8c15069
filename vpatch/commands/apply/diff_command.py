"""vpatch diff: what the patches change, as a unified diff of fixed bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.apply.diff import diff, write_series
from vpatch.console.common_options import FOLDER, offline_option
from vpatch.console.completion import PATCH_ID, RELEASE
from vpatch.console.options import (
    folder_option,
    library_options,
)
from vpatch.console.output import echo_code
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.workspace.context import Context


@click.command("diff")
@click.argument("ids", nargs=-1, type=PATCH_ID, metavar="[PATCH]...")
@click.option("--vllm", type=RELEASE, metavar="VERSION", help="Use the checkout of this version.")
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
    """Print what the patches of a checkout change.

    Prints one diff, or one for each PATCH.
    """
    if series is not None:
        click.echo("\n".join(map(str, write_series(context, ids, vllm, checkout, series))))
        return ExitCode.CLEAN
    for text in diff(context, ids, vllm, checkout):
        echo_code(text)
    return ExitCode.CLEAN
