"""vpatch upstream-status: what became of each patch upstream, and what to do with it."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from vpatch.app import selection
from vpatch.app.upstream_status import ask_threads, patch_status
from vpatch.cli import render
from vpatch.cli.options import json_option, library_options, open_context, source_options
from vpatch.cli.output import secho, style
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode, VpatchError
from vpatch.output.upstream import UpstreamStatusOutput
from vpatch.planning.plan_cache import cached_plan
from vpatch.upstream.threads import UnknownThreadError, age
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.upstream.status import Known, PatchStatus
    from vpatch.upstream.threads import Answer

_COLOURS = {"drop": "green", "keep": "cyan", "port": "red"}


@click.command("upstream-status")
@source_options
@library_options
@json_option
def command(
    vllm: str | None,
    recipe: str | None,
    trees: tuple[str, ...],
    only: tuple[str, ...],
    patches_dirs: tuple[Path, ...],
    recipes_dirs: tuple[Path, ...],
    *,
    offline: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show the state of each patch's upstream threads, and propose what to do.

    Shows three independent facts: the state of the pull request, the first release with the merged
    change, and whether the pinned tree has the effect. vpatch proposes to drop, keep or port the
    patch. It changes nothing.

    Ends with 1 if a patch should be dropped or ported, if it declares something wrong about a
    thread, or if a thread is unknown. Without a network, vpatch uses GitHub's last answers and
    shows their age. Without any, it uses the states that patch.yaml declares.
    """
    if not offline:
        require("upstream", "`vpatch upstream-status` without --offline")
    context = open_context(patches_dirs, recipes_dirs, offline)
    rows = []
    with ExitStack() as stack:
        threads = context.threads(stack)
        request = selection.Request(vllm, recipe, trees, only)
        answers: dict[str, Answer | VpatchError] = {}
        for job in selection.resolve(request, context.library, whole_library=True):
            with context.tree(job.spec, job.expected_digest) as tree:
                alone = selection.decided_alone(job, only)
                plan = cached_plan(context.plans, job.patches, tree, to_write=False, alone=alone)
            told = [d for d in plan.decisions if d.patch.declaration.upstream]
            ask_threads(context, threads, [d.patch for d in told], answers)
            rows += [patch_status(plan, decision, answers) for decision in told]
    if threads.unreachable is not None:
        context.progress.note(f"{threads.unreachable.what}; these are its last answers")
    code = ExitCode.FINDINGS if any(row.needs_a_person for row in rows) else ExitCode.CLEAN
    if as_json:
        return CommandResult(UpstreamStatusOutput.of(rows), code)
    _print(rows)
    return code


def _print(rows: Sequence[PatchStatus]) -> None:
    now = datetime.now(UTC)
    for number, row in enumerate(rows):
        if number == 0 or row.plan is not rows[number - 1].plan:
            render.print_pin(row.plan.pin, "")
        click.echo(f"{row.decision.patch.id}")
        for known in row.known:
            click.echo(f"  {known.declared.ref}  {_told(known)}")
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


def _told(known: Known) -> str:
    """The first two of the three answers: what became of the thread, and which release has it."""
    thread = known.answer.thread
    relation = f", {known.declared.relation}" if known.declared.relation else ""
    told = f"{thread.kind}{relation}: {thread.state}"
    if thread.state == "merged":
        release = known.answer.release
        told += f", in {release} and later" if release else ", in no release yet"
    return told
