"""vpatch test: a patch's examples, each applied twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.cli import render
from vpatch.cli.session import Session, json_option, library_options
from vpatch.errors import ExitCode
from vpatch.examples import run_examples

if TYPE_CHECKING:
    from pathlib import Path


@click.command("test")
@click.argument("ids", nargs=-1, metavar="[PATCH]...")
@library_options
@json_option
def command(
    ids: tuple[str, ...], patches: tuple[Path, ...], recipes: tuple[Path, ...], *, as_json: bool
) -> ExitCode:
    """Run the examples of some patches, or of all: each twice, and the second run must be idle."""
    library = Session(patches, recipes).library
    results = [
        (patch.id, result)
        for patch in library.load(ids or sorted(library.patches))
        for result in run_examples(patch)
    ]
    failed = [result for _, result in results if result.failures]
    if as_json:
        render.print_json(
            [
                {"patch": patch_id, "example": result.name, "failures": result.failures}
                for patch_id, result in results
            ]
        )
        return ExitCode.FINDINGS if failed else ExitCode.CLEAN
    for patch_id, result in results:
        verdict = click.style("fails", fg="red") if result.failures else "holds"
        click.echo(f"{verdict}  {patch_id}  {result.name}")
        for failure in result.failures:
            click.echo("       " + failure.replace("\n", "\n       "))
    click.echo(f"{len(results) - len(failed)} of {render.counted(len(results), 'example')} hold")
    return ExitCode.FINDINGS if failed else ExitCode.CLEAN
