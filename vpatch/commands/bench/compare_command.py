"""vpatch bench compare: records side by side, also those of other machines."""

from __future__ import annotations

from pathlib import Path

import click

from vpatch.commands.bench.compare import compare_records
from vpatch.commands.bench.output import BenchCompareOutput
from vpatch.commands.bench.report.markdown import report_of
from vpatch.commands.bench.run import write_page
from vpatch.console.options import json_option
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode


@click.command("compare")
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--despite",
    multiple=True,
    type=click.Choice(["model", "prompts", "flags", "pins"]),
    help="Compare even if these differ, and report it; repeatable. Pins are sources and patches.",
)
@renamed_option(
    "--output",
    "html",
    old="--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a page with plots to FILE.html as well.",
)
@click.option(
    "--sides",
    metavar="A,B,...",
    help="Compare these sides of one record, the others with the first  [default: all].",
)
@json_option
def compare(
    records: tuple[Path, ...],
    despite: tuple[str, ...],
    html: Path | None,
    sides: str | None,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Compare records side by side, also records of other machines, or the sides of one record.

    RECORDS are folders that vpatch bench made, or their bench.json. vpatch compares only what was
    measured alike: the same checkpoint, prompts, flags and pins. Ends with 1 if the records differ
    in these.
    """
    compared = compare_records(records, despite, sides)
    if html is not None and compared.record is not None:
        write_page(html, compared.record)
    code = ExitCode.FINDINGS if compared.record is None else ExitCode.CLEAN
    if as_json:
        page = None if compared.record is None else html
        output = BenchCompareOutput(
            differences=list(compared.differing), record=compared.record, page=page
        )
        return CommandResult(output, code)
    for what in compared.differing:
        click.echo(f"they differ in {what}")
    if not compared.common:
        click.echo("they have no model, k, shape and concurrency in common")
    elif compared.record is None:
        kinds = dict.fromkeys(compared.differing.values())
        words = " ".join(f"--despite {kind}" for kind in kinds)
        click.echo(f"not compared; {words} does so all the same")
    else:
        click.echo(report_of(compared.record), nl=False)
        if html is not None:
            click.echo(f"\npage: {html}")
    return code
