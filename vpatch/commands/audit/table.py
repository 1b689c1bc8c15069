"""What advisories mean, in words for people."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from vpatch.commands.audit.judge import OPEN, Status
from vpatch.console.output import secho
from vpatch.util.plural import counted
from vpatch.util.visible import visible_line
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult
    from vpatch.commands.audit.vex_repository import Feed

COLOURS = {
    Status.AFFECTED: "red",
    Status.UNDER_INVESTIGATION: "yellow",
    Status.UNKNOWN: "magenta",
    Status.FIXED: "green",
    Status.NOT_AFFECTED: "bright_black",
}
SYMBOLS = dict(zip(Status, "AI?F.", strict=True))
_SHOWN = 3
_SEVERITY = 8
_DIGEST = len("sha256:") + 12
# For output that no terminal shows.
_WIDE = 100


def print_audit(result: AuditResult) -> None:
    """Print one tree in detail, or several as a table."""
    width = line_width(_WIDE)
    if len(result.trees) == 1:
        _print_tree(result.trees[0], width)
    elif result.trees:
        _print_matrix(result.trees)
    for unused in result.unused_accepted:
        entry = unused.acceptance
        _print_wrapped(f"{entry.where}: {entry.id} is accepted, and {unused.why}", width, 2)
    _print_wrapped(_coverage(result), width, 2)


def print_feed(feed: Feed, folder: Path) -> None:
    """Print what a feed has now."""
    statements = sum(len(one.statements) for one in feed.products)
    click.echo(f"{folder}: {counted(statements, 'statement')} on {_versions(len(feed.products))}")
    if feed.url is None:
        click.echo("next: give --url URL, so that vex-repository.json names where you publish it")
    else:
        click.echo(f"next: publish it at {feed.url}")


def _versions(number: int) -> str:
    return counted(number, "version of vLLM") if number == 1 else f"{number} versions of vLLM"


def _coverage(result: AuditResult) -> str:
    """What the data covers, and how old it is. It never sounds complete."""
    advisories, newer = result.advisories, result.newer
    now = datetime.now(UTC)
    age = f"{advisories.as_of:%Y-%m-%d}, {counted(advisories.age(now), 'day')} ago"
    count = f"{counted(len(advisories.all), 'advisory')}, the newest of {age}"
    if newer is None:
        return f"{count}: a selection from public copies; vpatch audit --update takes osv.dev's"
    taken = counted(max(0, (now - newer.taken).days), "day")
    source = f"{visible_line(newer.source)}, taken {taken} ago ({newer.digest[:_DIGEST]})"
    return f"{count}: a selection from public copies, and {source}; others may exist"


def _print_tree(tree: AuditedTree, width: int) -> None:
    counts = Counter(finding.status for finding in tree.findings)
    accepted = Counter(finding.status for finding in tree.findings if finding.is_accepted)
    summary = ", ".join(
        f"{counts[status]} {_words(status)}"
        + (f" ({accepted[status]} accepted)" if accepted[status] else "")
        for status in Status
        if counts[status]
    )
    first, *rest = wrapped(f"{tree.subject}  {summary}", width, hanging=2)
    # A long path may not fit on the line.
    subject = tree.subject if first.startswith(tree.subject) else ""
    secho(subject, bold=True, nl=False)
    click.echo("\n".join([first.removeprefix(subject), *rest]))
    for status in Status:
        findings = [finding for finding in tree.findings if finding.status is status]
        if not findings:
            continue
        # Those that need a look are told one by one.
        if status in OPEN:
            secho(_words(status), fg=COLOURS[status])
            for finding in sorted(findings, key=lambda one: one.is_accepted):
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
    if not (finding.places and finding.decisions):
        _print_wrapped(f"    {finding.reason}", width, 4)
    for place in finding.places[:_SHOWN]:
        _print_wrapped(f"    {place.where}: {place.what}", width, 6)
    if len(finding.places) > _SHOWN:
        click.echo(f"    and {counted(len(finding.places) - _SHOWN, 'more place')}")
    if finding.remark:
        _print_wrapped(f"    {finding.remark}", width, 4)
    if finding.accepted is not None:
        _print_wrapped(f"    {finding.accepted.sentence}", width, 4)


def _print_wrapped(text: str, width: int, indent: int) -> None:
    for line in wrapped(text, width, hanging=indent - (len(text) - len(text.lstrip()))):
        click.echo(line)


def _print_matrix(trees: Sequence[AuditedTree]) -> None:
    # rich's tables load slowly.
    from rich.text import Text  # noqa: PLC0415

    from vpatch.console.table import (  # noqa: PLC0415
        Column,
        legend_lines,
        reading_lines,
        table_lines,
    )

    width = line_width()
    every = [finding for tree in trees for finding in tree.findings]
    columns = [
        Column(tree.plan.pin, {one.advisory.id: Text(*_cell(one)) for one in tree.findings})
        for tree in trees
    ]
    counts = Counter((finding.status, finding.is_accepted, *_cell(finding)) for finding in every)
    legend = [
        Text.assemble((symbol, style), f" {_words(status)}{' (accepted)' * accepted} {count}")
        for (status, accepted, symbol, style), count in sorted(
            counts.items(), key=lambda item: (list(Status).index(item[0][0]), item[0][1])
        )
    ]
    parts = (
        table_lines(columns, width),
        reading_lines(columns, width),
        legend_lines(legend, width),
    )
    for part in parts:
        for line in part:
            click.echo(line)


def _cell(finding: AuditFinding) -> tuple[str, str]:
    """The symbol of a finding and its colour; what is accepted is not in capitals."""
    symbol = SYMBOLS[finding.status]
    if finding.is_accepted:
        symbol = {"?": "u"}.get(symbol, symbol.lower())
    return symbol, COLOURS[finding.status]


def _words(status: Status) -> str:
    return status.replace("_", " ")
