"""vpatch upstream-pr: a patch as a pull request that upstream would like to receive."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.upstream.output import UpstreamPrOutput
from vpatch.commands.upstream.proposal import (
    proposal_context,
    push_target,
    refuse_unsendable,
    target_of,
    why_no_hooks,
)
from vpatch.commands.upstream.propose import propose
from vpatch.commands.upstream.submit import refuse_credentials, submit
from vpatch.console import render
from vpatch.console.common_options import offline_option
from vpatch.console.completion import PATCH_ID
from vpatch.console.options import (
    evidence_dir_option,
    json_option,
    library_options,
)
from vpatch.console.output import secho, style
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode, UsageError, VpatchError
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.upstream.gates import Gate
    from vpatch.commands.upstream.propose import Proposed
    from vpatch.commands.upstream.submit import Sent
    from vpatch.workspace.context import Context

_COLOURS = {"pass": "green", "fail": "red", "not asked": "yellow"}


@click.command("upstream-pr")
@click.argument("patch_id", type=PATCH_ID, metavar="PATCH")
@click.option(
    "--submit", "sending", is_flag=True, help="Push the branch and open a draft pull request."
)
@click.option(
    "--target", "name", metavar="NAME", help="Project to propose to  [default: the patch's]"
)
@renamed_option(
    "--onto",
    "on",
    old="--on",
    metavar="PATH@REF",
    help="Dry run on this instead of upstream's branch: PATH@REF, URL@REF or a release.",
)
@evidence_dir_option
@click.option("--fork", metavar="OWNER/NAME", help="Your fork  [default: YOU/NAME]")
@click.option("--fork-url", metavar="URL", help="The fork's URL for git  [default: GitHub's https]")
@click.option(
    "--no-hooks", is_flag=True, help="Do not run upstream's hooks: they are upstream's code."
)
@offline_option
@library_options
@json_option
def command(
    patch_id: str,
    name: str | None,
    on: str | None,
    evidence_dir: Path,
    fork: str | None,
    fork_url: str | None,
    context: Context,
    *,
    sending: bool,
    no_hooks: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Show or open a pull request to upstream.

    Shows a patch with every gate that it must pass. vpatch applies the codemods to upstream's main,
    and puts the patch's test where upstream keeps such tests. It sends nothing without --submit.
    --submit needs every gate to pass, and a person who confirms at a terminal. A second run updates
    the same pull request, and keeps what people wrote there.

    Ends with 1 if a gate fails. With --offline, gates that need GitHub are not asked.
    """
    if sending:
        _refuse_unfit(offline=context.offline, on=on, as_json=as_json)
    if fork_url is not None:
        refuse_credentials(fork_url)
    patch = context.library.patch(patch_id)
    name = name or target_of(patch, context)
    target = context.target(name)
    refused = why_no_hooks(context, name, no_hooks=no_hooks)
    with ExitStack() as stack:
        if sending:
            refuse_unsendable(context, target, refused, stack)
        proposal = proposal_context(
            context, patch, target, on, evidence_dir, fork, stack, hooks_refused=refused
        )
        proposed = propose(proposal, context.progress)
        if as_json:
            code = ExitCode.FINDINGS if proposed.fails else ExitCode.CLEAN
            return CommandResult(UpstreamPrOutput.model_validate(proposed), code)
        _print(proposed)
        if not sending or not proposed.passes:
            if sending:
                click.echo("nothing was sent: every gate must pass")
            return ExitCode.FINDINGS if proposed.fails or sending else ExitCode.CLEAN
        github, way = push_target(context, proposal, fork, fork_url)
        _confirm(patch_id, way.fork.full_name)
        sent = submit(proposed, github, way, context.progress)
    _print_sent(sent, way.fork.full_name, proposed.branch)
    return ExitCode.CLEAN


def _refuse_unfit(*, offline: bool, on: str | None, as_json: bool) -> None:
    """Refuse --submit where it has no meaning, or where no person can confirm it."""
    if offline or on or as_json:
        raise ConflictingOptionsError(
            "--submit needs upstream as it is now, and asks a person",
            hint="leave out --offline, --onto and --json",
        )
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError(
            "--submit asks a person to confirm, but there is no terminal",
            hint="run it at a terminal: upstream accepts only what a person answers for",
            code="upstream.no-terminal",
        )


def _print(proposed: Proposed) -> None:
    target = proposed.context.target
    render.print_pin(proposed.context.tree.pin, f"for {target.repository}:{target.branch}")
    if proposed.files:
        click.echo(f"branch  {proposed.branch}")
        click.echo(f"title   {proposed.title}")
        click.echo(f"labels  {', '.join(proposed.labels) or 'none'} (by upstream's own rules)")
        _heading("commit")
        click.echo(proposed.message.rstrip())
        _heading("diff")
        click.echo(proposed.diff.rstrip())
        if proposed.body:
            _heading("body")
            click.echo(proposed.body.rstrip())
        if proposed.person:
            _heading("what only a person can do")
        for hint in proposed.person:
            click.echo(f"- {hint}")
    _heading("gates")
    # What was not asked for one reason is told together: there is no more to say of it.
    idle = [gate for gate in proposed.gates if gate.verdict == "not asked" and gate.hint is None]
    answered = [gate for gate in proposed.gates if gate not in idle]
    width = max(len(gate.name) for gate in answered)
    for gate in answered:
        _print_gate(gate, width)
    if idle:
        names = ", ".join(gate.name for gate in idle)
        first, *more = _lines(f"{names}: {idle[0].reason}", 11)
        click.echo(f"{style('not asked', fg='yellow')}  {first}")
        for line in more:
            click.echo(f"{'':<11}{line}")
    counts = Counter(gate.verdict for gate in proposed.gates)
    rest = f", {counts['not asked']} not asked" if counts["not asked"] else ""
    passed, failed = counts["pass"], counts["fail"]
    click.echo(f"{passed} of {len(proposed.gates)} gates pass, {failed} fail{rest}")


def _heading(text: str) -> None:
    secho(f"\n{text}", bold=True)


def _print_gate(gate: Gate, width: int) -> None:
    verdict = style(f"{gate.verdict:<9}", fg=_COLOURS[gate.verdict])
    indent = " " * (9 + 2 + width + 2)
    first, *more = _lines(gate.reason, len(indent))
    click.echo(f"{verdict}  {gate.name:<{width}}  {first}")
    if gate.hint and gate.verdict != "pass":
        more += _lines(f"next: {gate.hint}", len(indent))
    for line in more:
        click.echo(f"{indent}{line}".rstrip())


def _lines(text: str, indent: int) -> list[str]:
    """The lines of a text, broken between words where a terminal has no room for them."""
    return list(wrapped(text, max(30, line_width() - indent - 1), hanging=0))


def _confirm(patch_id: str, fork: str) -> None:
    """Ask the person who proposes it, by more than a key.

    Raises:
        VpatchError: they did not confirm.
    """
    click.echo(f"\nThis goes to {fork}, and to upstream as a draft in your name.")
    typed = click.prompt(
        "If you have read every changed line and ran the tests, type the patch's id",
        default="",
        show_default=False,
    )
    if typed.strip() != patch_id:
        raise VpatchError(
            "you did not confirm it, so vpatch sent nothing",
            hint="run the command again to send it",
            code="upstream.not-confirmed",
        )


def _print_sent(sent: Sent, fork: str, branch: str) -> None:
    how = "pushed" if sent.pushed else "was there already"
    click.echo(f"{fork}:{branch}  {sent.commit[:12]} {how}")
    what = "a new draft" if sent.created else "brought up to date" if sent.updated else "unchanged"
    click.echo(f"{sent.url}  {what}")
    for part in sent.unwritten:
        click.echo(f"  {part}")
