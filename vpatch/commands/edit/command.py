"""vpatch edit: a checkout in which a patch is edited as code."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.edit.absorb.checkout import OpenedSeries, open_series
from vpatch.commands.edit.record import CARRIED_DIFF
from vpatch.commands.edit.work_tree import OpenedEdit, abort_edit, open_edit
from vpatch.console.completion import PATCH_ID, RECIPE_NAME, RELEASE
from vpatch.console.options import json_option, library_options
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode, UnusedOptionError
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.edit.carry import CarriedPatch
    from vpatch.commands.edit.output import EditOutput
    from vpatch.workspace.context import Context

_SHOWN = 6


@click.command("edit")
@click.argument("patch_id", required=False, type=PATCH_ID, metavar="[PATCH]")
@click.option("--vllm", type=RELEASE, metavar="VERSION", help="The vLLM to edit the patch on.")
@click.option(
    "--recipe",
    type=RECIPE_NAME,
    metavar="NAME",
    help="The recipe with the series  [default: that of --vllm, or the only one with the patch]",
)
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the checkout  [default: .vpatch/edit-PATCH in the project]",
)
@click.option("--abort", is_flag=True, help="Remove the checkout, and leave the patch as it is.")
@library_options
@json_option
def command(
    patch_id: str | None,
    vllm: str | None,
    recipe: str | None,
    checkout: Path | None,
    context: Context,
    *,
    abort: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Open a patch as code, to change it.

    Makes a checkout with the patches that come before PATCH, a commit each. What PATCH changes is
    in the work tree, as if you had added it with git. Edit the files, and run `vpatch refresh
    PATCH`: the patch then says what the work tree says.

    Without PATCH, all patches of the recipe are there, a commit each. `vpatch refresh` then puts
    each change into the patch that it belongs to.

    If PATCH does not fit the vLLM of --vllm, its change on an earlier release is laid in, with
    conflict markers where that is not clear. `vpatch refresh PATCH` then adds a variant for it.
    """
    if abort:
        for option, value in (("--vllm", vllm), ("--recipe", recipe)):
            if value is not None:
                raise UnusedOptionError(
                    f"{option} would have no effect with --abort", hint="leave it out"
                )
        return _abort(context, patch_id, checkout, as_json=as_json)
    if patch_id is None:
        series = open_series(context, vllm, recipe, checkout)
        if as_json:
            return CommandResult(_series_output(series))
        for line in _lines_of_series(series):
            click.echo(line)
        return ExitCode.CLEAN
    opened = open_edit(context, patch_id, vllm, recipe, checkout)
    if as_json:
        return CommandResult(_output(opened))
    for line in _lines(opened):
        click.echo(line)
    return ExitCode.CLEAN


def _abort(
    context: Context, patch_id: str | None, checkout: Path | None, *, as_json: bool
) -> CommandResult | ExitCode:
    aborted = abort_edit(context, patch_id, checkout)
    if as_json:
        from vpatch.commands.edit.output import EditOutput  # noqa: PLC0415 - models load slowly

        shown = EditOutput(
            id=aborted.patch, folder=aborted.folder, outcome="aborted", diff=aborted.diff
        )
        return CommandResult(shown)
    stays = "" if aborted.patch is None else f"; {aborted.patch} stays as it is"
    click.echo(f"{aborted.folder} is removed{stays}")
    if aborted.diff is not None:
        click.echo(f"what you changed there is in {aborted.diff}")
    return ExitCode.CLEAN


def _series_output(opened: OpenedSeries) -> EditOutput:
    from vpatch.commands.edit.output import EditOutput  # noqa: PLC0415 - models load slowly

    return EditOutput(
        id=None,
        folder=opened.folder,
        outcome=opened.outcome,
        version=opened.record.source.version,
        files=opened.files,
        earlier=opened.needed,
    )


def _lines_of_series(opened: OpenedSeries) -> Iterator[str]:
    record, shown = opened.record, shlex.quote(str(opened.folder))
    release = f"{record.source.tree} {record.source.version or record.source.origin}"
    if opened.outcome == "unchanged":
        yield f"{opened.folder} is there already, for a series on {release}; nothing was written"
    else:
        yield f"{opened.folder}  {counted(len(opened.needed), 'commit')} on {release}"
        yield f"  of {listed(list(opened.needed), _SHOWN)}"
    yield f"next: edit files in {shown}, then run vpatch refresh"


def _output(opened: OpenedEdit) -> EditOutput:
    from vpatch.commands.edit.output import (  # noqa: PLC0415 - models load slowly
        CarriedPatchOutput,
        ConflictPlaceOutput,
        EditOutput,
    )

    one = opened.carried
    carried = one and CarriedPatchOutput(
        release=one.release,
        variant=one.variant,
        total=one.total,
        failing=list(one.failing),
        proposal=one.proposal,
        conflicts=[ConflictPlaceOutput(path=p.path, line=p.line) for p in one.laid.places],
        aside=list(one.laid.aside),
        doubts=list(one.laid.doubts),
    )
    record = opened.record
    return EditOutput(
        id=record.patch,
        folder=opened.folder,
        outcome=opened.outcome,
        version=record.source.version,
        files=opened.files,
        earlier=tuple(record.earlier),
        later=record.later,
        carried=carried,
    )


def _lines(opened: OpenedEdit) -> list[str]:
    record, shown = opened.record, shlex.quote(str(opened.folder))
    release = f"{record.source.tree} {record.source.version or record.source.origin}"
    if opened.outcome == "unchanged":
        return [
            (
                f"{opened.folder} is there already, for {record.patch} on {release}; "
                "nothing was written"
            ),
            f"next: edit files in {shown}, then run vpatch refresh {record.patch}",
        ]
    lines = [f"{opened.folder}  {record.patch} on {release}"]
    if record.earlier:
        lines.append(f"  below it: {listed(list(record.earlier), _SHOWN)}")
    lines.append(f"  it changes: {listed(list(opened.files), _SHOWN)}")
    if record.later:
        lines.append(f"  not in the checkout, as they come later: {listed(record.later, _SHOWN)}")
    if opened.carried is not None:
        lines += _lines_of_carried(opened.carried)
        if opened.carried.laid.open_parts:
            lines.append(f"next: solve this in {shown}, then run vpatch refresh {record.patch}")
            return lines
    lines.append(f"next: edit files in {shown}, then run vpatch refresh {record.patch}")
    return lines


def _lines_of_carried(one: CarriedPatch) -> Iterator[str]:
    """How a patch that does not fit was laid in, and what is to be solved."""
    yield f"  the patch does not fit it: this is its change on {one.release}, laid in"
    holding = one.total - len(one.failing)
    yield f"  {holding} of {counted(one.total, 'edit')} find their places" + (
        "; these do not:" if one.failing else ""
    )
    yield from (f"    {reason}" for reason in one.failing)
    if one.proposal is not None:
        yield f"  as vpatch bump proposes: {one.proposal}"
    if not one.laid.open_parts:
        yield "  no conflict is left: read what git diff --cached shows there"
    yield from (f"  conflict  {place.where}" for place in one.laid.places)
    yield from (f"  not laid in  {reason}" for reason in one.laid.aside)
    yield from (f"  look at  {doubt}" for doubt in one.laid.doubts)
    if one.laid.aside:
        yield f"  the whole change on {one.release} is in {CARRIED_DIFF} there"
