"""What advisories mean, in words for people."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from vpatch.commands.audit.judge import Status
from vpatch.console.output import secho
from vpatch.util.plural import counted
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult

COLOURS = {
    Status.AFFECTED: "red",
    Status.UNDER_INVESTIGATION: "yellow",
    Status.UNKNOWN: "magenta",
    Status.FIXED: "green",
    Status.NOT_AFFECTED: "bright_black",
}
SYMBOLS = dict(zip(Status, "AI?F.", strict=True))
# Those that need a look are told one by one.
_TOLD = (Status.AFFECTED, Status.UNDER_INVESTIGATION, Status.UNKNOWN)
_SHOWN = 3
_SEVERITY = 8
# For output that no terminal shows.
_WIDE = 100


def print_audit(result: AuditResult) -> None:
    """Print one tree in detail, or several as a table."""
    width = line_width(_WIDE)
    if len(result.trees) == 1:
        _print_tree(result.trees[0], width)
    else:
        _print_matrix(result.trees)
    advisories = result.advisories
    days = advisories.age(datetime.now(UTC))
    count = counted(len(advisories.all), "advisory")
    newest = f"the newest is of {advisories.as_of:%Y-%m-%d}, {counted(days, 'day')} ago"
    click.echo(f"{count}; {newest}")


def _print_tree(tree: AuditedTree, width: int) -> None:
    counts = Counter(finding.status for finding in tree.findings)
    summary = ", ".join(f"{counts[status]} {_words(status)}" for status in Status if counts[status])
    secho(tree.subject, bold=True, nl=False)
    click.echo(f"  {summary}")
    for status in Status:
        findings = [finding for finding in tree.findings if finding.status is status]
        if not findings:
            continue
        if status in _TOLD:
            secho(_words(status), fg=COLOURS[status])
            for finding in findings:
                _print_finding(finding, width)
            continue
        names = ", ".join(f"{one.advisory.id}{'*' * bool(one.remark)}" for one in findings)
        _print_wrapped(f"{_words(status)}: {names}", width, 2)
        for remark in {finding.remark for finding in findings if finding.remark}:
            click.echo(f"  * {remark}")
    patches = tree.curable
    if patches and tree.next_options:
        cured = counted(len(patches), "patch")
        click.echo(f"next: vpatch apply {' '.join(tree.next_options)}  ({cured})")


def _print_finding(finding: AuditFinding, width: int) -> None:
    severity = finding.severity or "-"
    line = f"  {finding.advisory.id:<19}  {severity:<{_SEVERITY}}  {finding.advisory.summary}"
    _print_wrapped(line, width, 33)
    if not finding.places:
        _print_wrapped(f"    {finding.reason}", width, 4)
    for place in finding.places[:_SHOWN]:
        _print_wrapped(f"    {place.where}: {place.what}", width, 6)
    if len(finding.places) > _SHOWN:
        click.echo(f"    and {counted(len(finding.places) - _SHOWN, 'more place')}")
    if finding.remark:
        _print_wrapped(f"    {finding.remark}", width, 4)


def _print_wrapped(text: str, width: int, indent: int) -> None:
    for line in wrapped(text, width, hanging=indent - (len(text) - len(text.lstrip()))):
        click.echo(line)


def _print_matrix(trees: Sequence[AuditedTree]) -> None:
    # rich's tables load slowly.
    from rich.text import Text  # noqa: PLC0415

    from vpatch.console.table import Column, legend_lines, table_lines  # noqa: PLC0415

    width = line_width()
    cell = {status: Text(SYMBOLS[status], style=COLOURS[status]) for status in Status}
    columns = [
        Column(tree.plan.pin, {one.advisory.id: cell[one.status] for one in tree.findings})
        for tree in trees
    ]
    counts = Counter(finding.status for tree in trees for finding in tree.findings)
    legend = [Text.assemble(cell[s], f" {_words(s)} {counts[s]}") for s in Status if counts[s]]
    for line in (*table_lines(columns, width), *legend_lines(legend, width)):
        click.echo(line)


def _words(status: Status) -> str:
    return status.replace("_", " ")
