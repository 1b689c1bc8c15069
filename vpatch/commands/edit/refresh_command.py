"""vpatch refresh: what the work tree of an edit says becomes the patch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.checkout.transaction import lock_target
from vpatch.commands.edit.absorb.absorb import absorb
from vpatch.commands.edit.absorb.record import read_series_record
from vpatch.commands.edit.checks import refuse_own_work
from vpatch.commands.edit.record import find_edit
from vpatch.commands.edit.refresh import refresh_patch
from vpatch.commands.edit.refresh_result import RefreshRequest
from vpatch.commands.edit.refresh_text import absorbed_lines, new_patch_lines, refreshed_lines
from vpatch.console.completion import PATCH_ID
from vpatch.console.options import json_option, library_options
from vpatch.console.output import echo_code
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode

if TYPE_CHECKING:
    from vpatch.commands.edit.absorb.record import SeriesRecord
    from vpatch.commands.edit.absorb.result import AbsorbedSeries
    from vpatch.commands.edit.refresh_output import RefreshOutput
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
@click.option(
    "--into",
    "new_id",
    metavar="NEW-ID",
    help="Make a new patch of what you changed, and leave the others as they are.",
)
@library_options
@json_option
def command(
    patch_id: str | None,
    checkout: Path | None,
    releases: str | None,
    new_id: str | None,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Make a patch say what its work tree says.

    Edits of the patch that still give their part of the change stay word for word, with their
    comments. Others change, or become new ones. vpatch applies the patch twice, and writes it if
    it gives the bytes of the work tree. Then it removes the checkout.

    Without PATCH, where `vpatch edit` opened a series: each change goes to the one patch that wrote
    its lines, or that changes its definition. The others stay in the work tree, and are listed.

    With --into, what differs from what PATCH makes becomes a patch of its own; of a series, what
    differs from what all patches make. It requires those that it does not apply without.
    """
    folder = find_edit(context, patch_id, checkout)
    with lock_target(folder, context.progress):
        # Another run may have ended the edit meanwhile.
        find_edit(context, patch_id, checkout)
        refuse_own_work(folder)
        if new_id is not None:
            return _into(context, folder, patch_id, new_id, releases, as_json=as_json)
        series = None if patch_id is not None else read_series_record(folder)
        if series is not None:
            return _absorb(context, folder, series, releases, as_json=as_json)
        request = RefreshRequest(patch_id, checkout, releases)
        return _refresh(context, folder, request, as_json=as_json)


def _absorb(
    context: Context, folder: Path, series: SeriesRecord, releases: str | None, *, as_json: bool
) -> CommandResult | ExitCode:
    absorbed = absorb(context, folder, series, releases)
    code = ExitCode.FINDINGS if absorbed.needs_a_person else ExitCode.CLEAN
    if as_json:
        return CommandResult(_series_output(absorbed), code)
    for line in absorbed_lines(absorbed):
        click.echo(line)
    if absorbed.checkout is None:
        click.echo(f"{folder} is removed")
    return code


def _refresh(
    context: Context, folder: Path, request: RefreshRequest, *, as_json: bool
) -> CommandResult | ExitCode:
    result = refresh_patch(context, request)
    code = ExitCode.FINDINGS if result.needs_a_person else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.edit.refresh_output import (  # noqa: PLC0415 - models load slowly
            RefreshOutput,
        )

        shown = {**vars(result), "diff": result.diff_text, "absorbed": (), "remaining": ()}
        return CommandResult(RefreshOutput.model_validate(shown), code)
    if result.diff:
        echo_code(b"".join(result.diff))
    for line in refreshed_lines(result, "the work tree"):
        click.echo(line)
    if result.checkout is None:
        click.echo(f"{folder} is removed")
    return code


def _into(
    context: Context,
    folder: Path,
    patch_id: str | None,
    new_id: str,
    releases: str | None,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    # It loads the importer.
    from vpatch.commands.edit.into.new_patch import make_new_patch  # noqa: PLC0415

    new = make_new_patch(context, folder, patch_id, new_id, releases)
    code = ExitCode.FINDINGS if new.needs_a_person else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.edit.refresh_output import (  # noqa: PLC0415 - models load slowly
            RefreshOutput,
        )

        none = dict.fromkeys(["by_text", "examples", "releases", "absorbed", "remaining"], ())
        counts = {
            "examples_hold": True,
            "written": False,
            "variant": None,
            "diff": "",
            "same": 0,
            "total": 0,
        }
        shown = {
            **{name: vars(new)[name] for name in ("folder", "version", "checkout", "kept_for")},
            "id": new.edited,
            "series": new.place.series,
            "new": new.imported,
            "after": new.place.after,
            "failure": new.place.failure,
        }
        return CommandResult(RefreshOutput.model_validate(none | counts | shown), code)
    for line in new_patch_lines(new):
        click.echo(line)
    return code


def _series_output(series: AbsorbedSeries) -> RefreshOutput:
    # Models load slowly.
    from vpatch.commands.edit.output import AbsorbedPatchOutput  # noqa: PLC0415
    from vpatch.commands.edit.refresh_output import RefreshOutput  # noqa: PLC0415

    results = [one.result for one in series.patches]
    own = AbsorbedPatchOutput.model_fields.keys() - {"hunks", "diff"}
    absorbed = [
        {name: vars(one.result)[name] for name in own}
        | {"hunks": [hunk.where for hunk in one.hunks], "diff": one.result.diff_text}
        for one in series.patches
    ]
    shown = {
        "id": None,
        "folder": series.folder,
        "version": series.version,
        "written": any(one.written for one in results),
        "variant": None,
        "diff": "".join(one.diff_text for one in results),
        "same": sum(one.same for one in results),
        "total": sum(one.total for one in results),
        "by_text": [reason for one in results for reason in one.by_text],
        "examples": [note for one in results for note in one.examples],
        "examples_hold": all(one.examples_hold for one in results),
        "series": series.series,
        "releases": [state for one in results for state in one.releases],
        "checkout": series.checkout,
        "kept_for": series.kept_for,
        "absorbed": absorbed,
        "remaining": series.remaining,
    }
    return RefreshOutput.model_validate(shown)
