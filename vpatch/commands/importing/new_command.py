"""vpatch new: an empty patch with a commented patch.yaml."""

from __future__ import annotations

from pathlib import Path

import click

from vpatch.commands.importing.output import NewOutput
from vpatch.commands.importing.scaffold import new_patch
from vpatch.console.options import json_option, written_in_project
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode


@click.command("new")
@click.argument("patch_id", metavar="ID")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    default=written_in_project("patches", "--output-dir"),
    help="Folder for the patch  [default: patches in the project]",
)
@json_option
def command(patch_id: str, output_dir: Path, *, as_json: bool) -> CommandResult | ExitCode:
    """Write an empty patch with a commented patch.yaml, for you to fill in."""
    folder = new_patch(output_dir, patch_id)
    if as_json:
        return CommandResult(NewOutput(id=patch_id, folder=folder))
    click.echo(f"wrote {folder / 'patch.yaml'}")
    return ExitCode.CLEAN
