"""vpatch refresh: what the work tree of an edit says becomes the patch."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.edit.absorb.absorb import absorb
from vpatch.commands.edit.absorb.record import read_series_record
from vpatch.commands.edit.record import find_edit
from vpatch.commands.edit.refresh import refresh_patch
from vpatch.commands.edit.refresh_result import RefreshedPatch, RefreshRequest
from vpatch.console.completion import PATCH_ID
from vpatch.console.options import json_option, library_options
from vpatch.console.output import echo_code, style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.library.shapes import SHAPES
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.edit.absorb.result import AbsorbedSeries
    from vpatch.commands.edit.output import RefreshOutput
    from vpatch.commands.edit.states import StateChange
    from vpatch.workspace.context import Context

_SHOWN = 6


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

    Without PATCH, where `vpatch edit` opened a series: each change goes to the one patch that wrote
    its lines, or that changes its definition. The others stay in the work tree, and are listed.
    """
    request = RefreshRequest(patch_id, checkout, releases)
    folder = find_edit(context, patch_id, checkout)
    series = None if patch_id is not None else read_series_record(folder)
    if series is not None:
        absorbed = absorb(context, folder, series, releases)
        code = ExitCode.FINDINGS if absorbed.needs_a_person else ExitCode.CLEAN
        if as_json:
            return CommandResult(_series_output(absorbed), code)
        for line in _lines_of_series(absorbed):
            click.echo(line)
        return code
    result = refresh_patch(context, request)
    code = ExitCode.FINDINGS if result.needs_a_person else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.edit.output import RefreshOutput  # noqa: PLC0415 - models load slowly

        shown = {**vars(result), "diff": _text(result)}
        return CommandResult(RefreshOutput.model_validate(shown), code)
    if result.diff:
        echo_code(b"".join(result.diff))
    for line in _lines(result):
        click.echo(line)
    return code


def _text(result: RefreshedPatch) -> str:
    return b"".join(result.diff).decode(errors="replace")


def _series_output(series: AbsorbedSeries) -> RefreshOutput:
    from vpatch.commands.edit.output import (  # noqa: PLC0415 - models load slowly
        AbsorbedPatchOutput,
        RefreshOutput,
    )

    results = [one.result for one in series.patches]
    own = AbsorbedPatchOutput.model_fields.keys() - {"hunks", "diff"}
    absorbed = [
        {name: vars(one.result)[name] for name in own}
        | {"hunks": [hunk.where for hunk in one.hunks], "diff": _text(one.result)}
        for one in series.patches
    ]
    shown = {
        "id": None,
        "folder": series.folder,
        "version": series.version,
        "written": any(one.written for one in results),
        "variant": None,
        "diff": "".join(_text(one) for one in results),
        "same": sum(one.same for one in results),
        "total": sum(one.total for one in results),
        "by_text": [reason for one in results for reason in one.by_text],
        "examples": [note for one in results for note in one.examples],
        "series": series.series,
        "releases": [state for one in results for state in one.releases],
        "checkout": series.checkout,
        "kept_for": series.kept_for,
        "absorbed": absorbed,
        "remaining": series.remaining,
    }
    return RefreshOutput.model_validate(shown)


def _lines_of_series(series: AbsorbedSeries) -> Iterator[str]:
    for one in series.patches:
        if one.result.diff:
            yield _text(one.result).rstrip("\n")
        yield from _lines(one.result)
        yield f"  got  {listed([hunk.where for hunk in one.hunks], _SHOWN)}"
    if not series.patches and not series.remaining:
        yield "the patches say what the work tree says already; nothing was written"
    for state in series.series:
        if state.differs:
            yield f"  {state.version:<18} {state.patch}: {_change(state.before, state.after)}"
            yield from _why([state])
    yield from (f"  in no patch  {one.where}: {one.reason}" for one in series.remaining)
    yield from (f"  in no patch  {reason}" for reason in series.kept_for)
    if series.checkout is not None:
        yield f"{series.checkout} stays, with what is in no patch; vpatch edit --abort removes it"


def _lines(result: RefreshedPatch) -> Iterator[str]:
    name = style(result.id, bold=True)
    if not result.written:
        yield f"{name}  says what the work tree says already; nothing was written"
    elif result.variant is not None:
        yield (
            f"{name}  gives the bytes of the work tree on {result.version} by a new variant, "
            f"{result.variant!r}; what it says for other releases stays"
        )
    else:
        yield (
            f"{name}  gives the bytes of the work tree on {result.version}; "
            f"{result.same} of {result.total} edits stay word for word"
        )
    yield from (f"  as text  {reason}" for reason in result.by_text)
    yield from (f"  {note}" for note in result.examples)
    yield from _states(result)
    if (result.folder / SHAPES).is_file() and result.written:
        yield f"next: vpatch test {result.id} --record writes the code that it is known on anew"
    yield from (f"  not in the patch  {reason}" for reason in result.kept_for)
    if result.checkout is not None:
        yield f"{result.checkout} stays; vpatch edit --abort {result.id} removes it"


def _states(result: RefreshedPatch) -> Iterator[str]:
    """The states that changed in the series, and those of the patch on other releases."""
    for one in result.series:
        if one.differs or one.patch == result.id:
            yield f"  {one.version:<18} {one.patch}: {_change(one.before, one.after)}"
            yield from _why([one])
    for (before, after), group in groupby(
        result.releases, key=lambda one: (str(one.before), str(one.after))
    ):
        members = list(group)
        versions = [one.version for one in members]
        span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        yield f"  {span:<18} {_change(before, after)}"
        yield from _why(members)


def _why(members: Sequence[StateChange]) -> Iterator[str]:
    if members[0].is_worse:
        yield f"      {members[0].reason}"


def _change(before: str, after: str) -> str:
    return f"{after}, as before" if before == after else f"{before} -> {after}"
