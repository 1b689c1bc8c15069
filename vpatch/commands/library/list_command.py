"""vpatch list: the patches and recipes at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.library.output import ListOutput
from vpatch.commands.library.search import search
from vpatch.console.options import json_option, library_options
from vpatch.console.output import secho, style
from vpatch.console.result import CommandResult
from vpatch.errors import BadValueError, ExitCode
from vpatch.library.catalog import came_along
from vpatch.util.plural import counted
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.commands.library.search import MatchingPatch
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context


@click.command("list")
@click.option(
    "--search",
    "words",
    metavar="WORDS",
    help="List only patches with all of these words, such as a symptom, a thread or a file.",
)
@library_options
@json_option
def command(context: Context, words: str | None, *, as_json: bool) -> CommandResult | ExitCode:
    """List the patches and recipes.

    They are those of the project and of the library. --search looks into patch.yaml, NOTES.md, and
    the paths of the files that a patch reads. It ends with 1 if no patch has the words.
    """
    library = context.library
    patches = library.load_all()
    if words is not None:
        return _search(patches, words, as_json=as_json)
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


def _search(patches: Sequence[Patch], words: str, *, as_json: bool) -> CommandResult | ExitCode:
    if not words.split():
        raise BadValueError("--search has no words", hint="give a word, such as a file or a thread")
    matching = search(patches, words)
    code = ExitCode.CLEAN if matching else ExitCode.FINDINGS
    if as_json:
        return CommandResult(ListOutput(patches=[one.patch for one in matching], recipes=[]), code)
    _print(f"Patches with {words}", [one.patch for one in matching], matching)
    if not matching:
        click.echo("next: vpatch diagnose LOGFILE names known issues that have no patch")
    return code


def _print(heading: str, patches: Sequence[Patch], matching: Sequence[MatchingPatch] = ()) -> None:
    lines_of = {one.patch.id: one.lines for one in matching}
    width = max((len(patch.id) for patch in patches), default=0)
    secho(f"{heading}: {counted(len(patches), 'patch')}", bold=True)
    for patch in patches:
        claims = (f"{tree} {claim}" for tree, claim in patch.relations.needed_in.items())
        texts = (patch.title, f"needed in {'; '.join(claims)}", *lines_of.get(patch.id, ()))
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
