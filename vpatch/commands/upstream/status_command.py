"""vpatch upstream-status: what became of each patch upstream, and what to do with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from vpatch.commands.upstream.output import UpstreamStatusOutput
from vpatch.commands.upstream.status_usecase import upstream_status
from vpatch.console import render
from vpatch.console.options import json_option, library_options, source_options
from vpatch.console.output import secho, style
from vpatch.console.result import CommandResult
from vpatch.github.threads import UnknownThreadError, age
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.upstream.status import Known, PatchStatus
    from vpatch.errors import ExitCode
    from vpatch.github.threads import Answer
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

_COLOURS = {"drop": "green", "keep": "cyan", "port": "red"}


@click.command("upstream-status")
@source_options
@library_options
@json_option
def command(
    request: Request,
    context: Context,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show the state of each patch's upstream threads.

    Proposes what to do. Shows three independent facts: the state of the pull request, the first
    release with the merged change, and whether the pinned tree has the effect. vpatch proposes to
    drop, keep or port the patch. It changes nothing.

    Ends with 1 if a patch should be dropped or ported, if it declares something wrong about a
    thread, or if GitHub refuses to show a thread. Without a network, vpatch uses GitHub's last
    answers and shows their age. Without any, it uses the states that patch.yaml declares. Ends with
    4 if a thread is still unknown, or if GitHub fails.
    """
    if not context.offline:
        require("upstream", "`vpatch upstream-status` without --offline")
    status = upstream_status(context, request)
    if status.note is not None:
        context.progress.note(status.note)
    if as_json:
        output = UpstreamStatusOutput(patches=status.rows)
        return CommandResult(output, status.exit_code, status.errors)
    _print(status.rows)
    return status.exit_code


def _print(rows: Sequence[PatchStatus]) -> None:
    now = datetime.now(UTC)
    for number, row in enumerate(rows):
        if number == 0 or row.plan is not rows[number - 1].plan:
            render.print_pin(row.plan.pin, "")
        click.echo(f"{row.decision.patch.id}")
        for known in row.known:
            click.echo(f"  {known.declared.ref}  {_answer(known)}")
            if not known.answer.live:
                click.echo(f"    {_source(known.answer, now)}")
            for disagreement in known.disagreements:
                secho(f"    {disagreement}: correct patch.yaml", fg="yellow")
        for one, error in row.unknown:
            # Why nobody could be asked is told once, at the end.
            why = "" if isinstance(error, UnknownThreadError) else f": {error.what}"
            click.echo(f"  {one.ref}  {style('not known', fg='red')}{why}")
        click.echo(f"  {row.plan.pin.label}  {render.styled(row.decision.state)}")
        advice = row.advice
        action = style(advice.action, fg=_COLOURS[advice.action])
        click.echo(f"  {action}: " + advice.reason.replace("\n", "\n    "))
    unknown = [error for row in rows for _, error in row.unknown]
    for what in dict.fromkeys(e.what for e in unknown if isinstance(e, UnknownThreadError)):
        click.echo(f"not known: {what}")
    for hint in dict.fromkeys(error.hint for error in unknown):
        click.echo(f"next: {hint}")
    if not rows:
        click.echo("no patch here names a thread upstream")


def _source(answer: Answer, now: datetime) -> str:
    if answer.asked is None:
        return "as declared in patch.yaml: GitHub was not asked"
    return f"as GitHub said then: {age(answer.asked, now)}"


def _answer(known: Known) -> str:
    """The first two of the three answers: what became of the thread, and which release has it."""
    thread = known.answer.thread
    relation = f", {known.declared.relation}" if known.declared.relation else ""
    where = ""
    if thread.state == "merged":
        release = known.answer.release
        where = f", in {release} and later" if release else ", in no release yet"
    return f"{thread.kind}{relation}: {thread.state}{where}"
