"""vpatch new: an empty patch with a commented patch.yaml."""

from __future__ import annotations

from pathlib import Path

import click

from vpatch.commands.importing.output import NewOutput
from vpatch.commands.importing.scaffold import TEST, new_patch
from vpatch.console.options import json_option, open_context, written_in_project
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.library.patch import DECLARATION


@click.command("new")
@click.argument("patch_id", metavar="ID")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    default=written_in_project("patches", "--output-dir"),
    help="Folder for the patch  [default: patches in the project]",
)
@click.option(
    "--test", "with_test", is_flag=True, help="Write a behaviour test to fill in as well."
)
@json_option
def command(
    patch_id: str, output_dir: Path, *, with_test: bool, as_json: bool
) -> CommandResult | ExitCode:
    """Write an empty patch, for you to fill in.

    Its patch.yaml has comments that say what each field is for.
    """
    folder = new_patch(output_dir, patch_id, with_test=with_test)
    open_context().trust_own(folder)
    test = folder / TEST if with_test else None
    if as_json:
        return CommandResult(NewOutput(id=patch_id, folder=folder, test=test))
    click.echo(f"wrote {folder / DECLARATION}")
    if test is not None:
        click.echo(f"wrote {test}")
    return ExitCode.CLEAN
