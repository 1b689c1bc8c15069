"""vpatch list: the patches and recipes at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.library.output import ListOutput
from vpatch.console.options import json_option, library_options
from vpatch.console.output import secho, style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.library.catalog import came_along
from vpatch.util.plural import counted
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


@click.command("list")
@library_options
@json_option
def command(context: Context, *, as_json: bool) -> CommandResult | ExitCode:
    """List the patches and recipes.

    They are those of the project and of the library.
    """
    library = context.library
    patches = library.load_all()
    if as_json:
        recipes = [{"name": name, "file": file} for name, file in sorted(library.recipes.items())]
        return CommandResult(ListOutput(patches=patches, recipes=recipes))
    theirs = [patch for patch in patches if came_along("patches", patch.folder)]
    own = [patch for patch in patches if patch not in theirs]
    backports = [patch for patch in theirs if patch.id in library.security]
    usual = [patch for patch in theirs if patch.id not in library.security]
    _print("Patches of the project", own)
    _print("Patches of the library", usual)
    if backports:
        _print("Backports of security fixes in the library", backports)
    secho("Recipes", bold=True)
    _print_names("of the project", library.own_recipes)
    _print_names("of the library", library.recipes.keys() - library.own_recipes.keys())
    return ExitCode.CLEAN


def _print(heading: str, patches: Sequence[Patch]) -> None:
    width = max((len(patch.id) for patch in patches), default=0)
    secho(f"{heading}: {counted(len(patches), 'patch')}", bold=True)
    for patch in patches:
        claims = (f"{tree} {claim}" for tree, claim in patch.relations.needed_in.items())
        texts = (patch.title, f"needed in {'; '.join(claims)}")
        lines = [line for text in texts for line in wrapped(text, line_width(), at=width + 4)]
        head = style(f"{patch.id:<{width}}", bold=True)
        click.echo(f"  {head}{lines[0][width + 2 :]}")
        for line in lines[1:]:
            click.echo(line)
    click.echo()


def _print_names(heading: str, names: Iterable[str]) -> None:
    text = f"{heading}: {', '.join(sorted(names)) or 'none'}"
    for line in wrapped(text, line_width(), at=2):
        click.echo(line)
