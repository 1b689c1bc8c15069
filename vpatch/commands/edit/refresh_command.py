"""vpatch refresh: what the work tree of an edit says becomes the patch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.edit.refresh import refresh_patch
from vpatch.commands.edit.refresh_result import RefreshRequest
from vpatch.commands.edit.refresh_text import refreshed_lines
from vpatch.console.completion import PATCH_ID
from vpatch.console.options import json_option, library_options
from vpatch.console.output import echo_code
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


@click.command("refresh")
@click.argument("patch_id", required=False, type=PATCH_ID, metavar="[PATCH]")
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the checkout, if `vpatch edit --checkout` named one.",
)
@click.option(
    "--releases",
    metavar="VERSION",
    help="Releases to compare: several with commas, all, or none  [default: those in the cache]",
)
@library_options
@json_option
def command(
    patch_id: str | None,
    checkout: Path | None,
    releases: str | None,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Make a patch say what its work tree says.

    Edits of the patch that still give their part of the change stay word for word, with their
    comments. Others change, or become new ones. vpatch applies the patch twice, and writes it if
    it gives the bytes of the work tree. Then it removes the checkout.
    """
    result = refresh_patch(context, RefreshRequest(patch_id, checkout, releases))
    code = ExitCode.FINDINGS if result.needs_a_person else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.edit.output import RefreshOutput  # noqa: PLC0415 - models load slowly

        shown = {**vars(result), "diff": b"".join(result.diff).decode(errors="replace")}
        return CommandResult(RefreshOutput.model_validate(shown), code)
    if result.diff:
        echo_code(b"".join(result.diff))
    for line in refreshed_lines(result, "the work tree"):
        click.echo(line)
    return code
