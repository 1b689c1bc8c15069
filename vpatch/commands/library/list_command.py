"""vpatch list: the patches and recipes at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.library.output import ListOutput
from vpatch.console.options import json_option, library_options
from vpatch.console.output import style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


@click.command("list")
@library_options
@json_option
def command(context: Context, *, as_json: bool) -> CommandResult | ExitCode:
    """List all patches and recipes of the project and of the library."""
    library = context.library
    patches = library.load_all()
    if as_json:
        recipes = [{"name": name, "file": file} for name, file in sorted(library.recipes.items())]
        return CommandResult(ListOutput(patches=patches, recipes=recipes))
    width = max((len(patch.id) for patch in patches), default=0)
    for patch in patches:
        click.echo(f"{style(f'{patch.id:<{width}}', bold=True)}  {patch.title}")
        claims = (f"{tree} {claim}" for tree, claim in patch.relations.needed_in.items())
        click.echo(f"{'':<{width}}  needed in {'; '.join(claims)}")
    click.echo(f"recipes: {', '.join(sorted(library.recipes)) or 'none'}")
    return ExitCode.CLEAN
