"""vpatch bench compare: records side by side, also those of other machines."""

from __future__ import annotations

from pathlib import Path

import click

from vpatch.bench.match import aligned, differences, in_common, joined, most_sides
from vpatch.bench.record import read_record
from vpatch.bench.report import report_of
from vpatch.bench.run import write_page
from vpatch.cli.options import json_option
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode, UsageError
from vpatch.output.bench import BenchCompareOutput

_LEAST = 2


@click.command("compare")
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--despite",
    multiple=True,
    type=click.Choice(["model", "prompts", "flags", "pins"]),
    help="Compare even if these differ, and report it; repeatable. Pins are sources and patches.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), help="Also write a page with plots to this file."
)
@json_option
def compare(
    records: tuple[Path, ...], despite: tuple[str, ...], html: Path | None, *, as_json: bool
) -> CommandResult | ExitCode:
    """Compare records side by side, also records of other machines.

    RECORDS are folders that vpatch bench made, or their bench.json. vpatch compares only what was
    measured alike: the same checkpoint, prompts, flags and pins. Ends with 1 if the records differ
    in these.
    """
    if len(records) < _LEAST:
        raise UsageError(
            "one record cannot be compared",
            hint="name another record",
            code="cli.missing-option",
        )
    found = aligned([read_record(place) for place in records])
    sides = sum(len(record["sides"]) for record in found)
    if sides > most_sides():
        raise UsageError(
            f"{sides} sides are too many: each gets a letter",
            hint="compare fewer records",
            code="bench.too-many-records",
        )
    differing = {
        str(difference): difference.kind
        for other in found[1:]
        for difference in differences(found[0], other)
    }
    common = bool(in_common(found))
    refused = not common or any(kind not in despite for kind in differing.values())
    together = None if refused else joined(found, list(differing))
    if html is not None and together is not None:
        write_page(html, together)
    code = ExitCode.FINDINGS if refused else ExitCode.CLEAN
    if as_json:
        page = None if refused else html
        output = BenchCompareOutput.of(differing, together, page)
        return CommandResult(output, code)
    for what in differing:
        click.echo(f"they differ in {what}")
    if not common:
        click.echo("they have no model, k, shape and concurrency in common")
    elif together is None:
        kinds = dict.fromkeys(differing.values())
        words = " ".join(f"--despite {kind}" for kind in kinds)
        click.echo(f"not compared; {words} does so all the same")
    else:
        click.echo(report_of(together), nl=False)
        if html is not None:
            click.echo(f"\npage: {html}")
    return code
