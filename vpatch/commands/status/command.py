"""vpatch status: what each patch means for each version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vpatch.commands.status.usecase import StatusRow, status
from vpatch.console import render
from vpatch.console.completion import PATCH_ID
from vpatch.console.options import (
    ALL_RELEASES,
    every_release_option,
    json_option,
    library_options,
    source_options,
    strict_option,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode
from vpatch.planning.telling import told_in_full
from vpatch.util.wrapping import line_width

if TYPE_CHECKING:
    from vpatch.planning.state import FindingsFor
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request


@click.command("status")
@source_options
@every_release_option
@click.option(
    "--why",
    type=PATCH_ID,
    metavar="PATCH",
    help="Show what vpatch looked for and found for one patch.",
)
@strict_option
@library_options
@json_option
def command(
    request: Request,
    context: Context,
    why: str | None,
    *,
    every: bool,
    strict: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show the state of each patch in releases of vLLM.

    `--vllm 0.22,0.23` takes several versions, and `--vllm all` takes every release.
    With --recipe as well, vpatch looks only at the patches of the recipe, in its order. This shows
    what an upgrade would mean.

    Several versions make a table: a row a patch, a column a version, a letter a state. A terminal
    that is too narrow gets several tables. A pipe or a file gets one for each tree, however wide.

    A mark behind a letter says how sure the state is: k is a known shape, a is changed around, and
    ? is a new shape. --why shows how the code differs from the nearest release that is recorded.

    Ends with 1 if a patch cannot be applied, or if the code contradicts what a patch declares.
    """
    if every and request.vllm:
        raise ConflictingOptionsError(
            "--all and --vllm both name releases", hint="give one of the two"
        )
    listed = list(dict.fromkeys(request.vllm.split(","))) if request.vllm else [None]
    asked = replace(request, vllm=None, strict=strict)
    versions = context.releases() if every or listed == [ALL_RELEASES] else listed
    shown: FindingsFor | None = "stopping" if as_json else None
    rows = status(context, versions, asked, why=why, findings_for=shown)
    code = ExitCode.FINDINGS if any(row.has_findings for row in rows) else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.status.output import StatusOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(StatusOutput(trees=rows), code)
    if why:
        _explain(rows)
    elif len(rows) == 1:
        render.print_pin(rows[0].plan.pin, _chosen(rows[0]))
        render.print_decisions(rows[0].plan.decisions)
    else:
        from vpatch.commands.status.table import matrix_lines  # noqa: PLC0415 - rich's tables load slowly

        for line in matrix_lines(rows, line_width()):
            click.echo(line)
    if not why:
        _note_unrecorded(context, rows)
    return code


def _note_unrecorded(context: Context, rows: list[StatusRow]) -> None:
    decisions = [d for row in rows for d in row.plan.decisions]
    ids = sorted({d.patch.id for d in decisions if d.shape and not d.shape.is_on_record})
    if ids:
        context.progress.note(
            f"not on record for any code: {', '.join(ids)} (vpatch test --record)"
        )


def _chosen(row: StatusRow) -> str:
    if row.recipe is None:
        return ""
    return f"the patches of recipe {row.recipe}" if row.moved else f"recipe {row.recipe}"


def _explain(rows: list[StatusRow]) -> None:
    for row in rows:
        for decision in row.plan.decisions:
            render.print_pin(row.plan.pin, _chosen(row))
            variant = f"  (variant {decision.variant})" if decision.variant else ""
            click.echo(f"  {decision.patch.id} is {render.styled(decision.state)}{variant}")
            render.print_told(told_in_full(decision, row.plan.pin.tree), 2, line_width())
            for line in row.diffs.get(decision.patch.id, ()):
                click.echo(f"    {line}".rstrip())
