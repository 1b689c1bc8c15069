"""vpatch diagnose: which known symptoms a log has, and what cures them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.commands.diagnose.diagnosis import DiagnosedLog, SymptomVerdict, diagnose
from vpatch.commands.diagnose.output import DiagnoseOutput
from vpatch.console import render
from vpatch.console.options import json_option, library_options, offline_option
from vpatch.console.output import style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.logs.symptoms import Sighting
    from vpatch.workspace.context import Context


@click.command("diagnose")
@click.argument("log", metavar="LOGFILE")
@click.option(
    "--vllm",
    metavar="VERSION",
    help="The vLLM that wrote the log, as in vpatch status  [default: as the log says]",
)
@offline_option
@library_options
@json_option
def command(
    log: str,
    vllm: str | None,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Find known symptoms in a log or traceback, and name the patch that fixes each.

    LOGFILE is the output of any vLLM; - reads standard input. Ends with 1 if a symptom is found.
    """
    diagnosis = diagnose(context, log, vllm)
    looked_for, reading, sightings, verdicts, note = diagnosis
    code = ExitCode.FINDINGS if sightings or reading.explained else ExitCode.CLEAN
    if as_json:
        return CommandResult(DiagnoseOutput.model_validate(diagnosis), code)
    if sightings:
        _print(reading, verdicts, sightings)
        if note:
            click.echo(note)
    elif not reading.explained:
        lines, count = counted(reading.lines, "line"), counted(looked_for.symptoms, "symptom")
        of = counted(looked_for.patches, "patch")
        click.echo(f"{reading.name}: nothing known in {lines}; {count} of {of} were looked for")
        click.echo("what only a person can observe is in no log: see vpatch show PATCH")
    for one, line in reading.explained.items():
        click.echo(f"{reading.name}:{line}: {one.message}")
        click.echo(f"  {one.meaning}\n  next: {one.hint}")
    return code


def _print(
    log: DiagnosedLog, verdicts: Sequence[SymptomVerdict], sightings: Sequence[Sighting]
) -> None:
    wrote = f", of vLLM {', '.join(log.versions)}" if log.versions else ""
    count = counted(len(sightings), "known symptom")
    click.echo(f"{log.name}: {count} in {counted(log.lines, 'line')}{wrote}")
    for verdict in verdicts:
        declaration = verdict.patch.declaration
        click.echo(f"{style(declaration.id, bold=True)}  {declaration.title}")
        for sighting in verdict.sightings:
            often = f", {sighting.count} times in all" if sighting.count > 1 else ""
            click.echo(f"  line {sighting.line}{often}: {sighting.symptom}")
        state = f"{render.styled(verdict.state)}: " if verdict.state else ""
        click.echo(f"  {state}{verdict.says}")
        if verdict.run:
            if declaration.on_request:
                click.echo(f"  on request only: {declaration.on_request}")
            click.echo(f"    {verdict.run}")
