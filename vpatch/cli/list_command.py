"""vpatch list: the patches and recipes at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.cli import render
from vpatch.cli.options import json_option, library_options, open_context
from vpatch.cli.output import style
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command("list")
@library_options
@json_option
def command(
    patches_dirs: tuple[Path, ...], recipes_dirs: tuple[Path, ...], *, as_json: bool
) -> ExitCode:
    """List all patches and recipes of the project and of the library."""
    context = open_context(patches_dirs, recipes_dirs)
    library = context.library
    found = library.load_all()
    if as_json:
        render.print_json(
            {
                "patches": [
                    {
                        "id": patch.id,
                        "title": patch.declaration.title,
                        "needed-in": patch.declaration.needed_in,
                        "digest": patch.digest,
                        "folder": str(patch.folder),
                    }
                    for patch in found
                ],
                "recipes": {name: str(path) for name, path in sorted(library.recipes.items())},
            }
        )
        return ExitCode.CLEAN
    width = max((len(patch.id) for patch in found), default=0)
    for patch in found:
        click.echo(f"{style(f'{patch.id:<{width}}', bold=True)}  {patch.declaration.title}")
        claims = (f"{tree} {claim}" for tree, claim in patch.declaration.needed_in.items())
        click.echo(f"{'':<{width}}  needed in {'; '.join(claims)}")
    click.echo(f"recipes: {', '.join(sorted(library.recipes)) or 'none'}")
    return ExitCode.CLEAN
