"""vpatch apply: declared patches on a pinned tree, as a git checkout."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.checkout.new_lock import build_version
from vpatch.commands.apply.usecase import apply_patches
from vpatch.console import render
from vpatch.console.options import (
    checkout_option,
    json_option,
    library_options,
    source_options,
    strict_option,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.source.tree import LOCK_FILE
from vpatch.util.plural import counted
from vpatch.util.wrapping import line_width, wrapped
from vpatch.workspace.checkout import states_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.checkout.apply import Applied, ApplyRequest
    from vpatch.planning.state import Decision, Plan
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request


@click.command("apply")
@source_options
@library_options
@checkout_option
@strict_option
@click.option("--force", is_flag=True, help="Overwrite the checkout even if it has your changes.")
@json_option
def command(
    request: Request,
    context: Context,
    checkout: Path | None,
    *,
    force: bool,
    strict: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Make a checkout with a commit for each patch.

    The lock file vpatch.lock in the checkout records exactly what was applied. vpatch writes
    nothing unless every patch is either applied or not needed.
    """

    def show(requests: Sequence[ApplyRequest]) -> None:
        for one in requests if not as_json else ():
            render.print_pin(one.plan.pin, _chosen(one, request, context))
            render.print_decisions(one.plan.decisions)

    asked = replace(request, strict=strict)
    done = apply_patches(context, asked, checkout, force=force, on_planned=show)
    code = ExitCode.FINDINGS if done.refused else ExitCode.CLEAN
    if as_json:
        from vpatch.commands.apply.output import ApplyOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(ApplyOutput.model_validate(done), code)
    if done.refused:
        plans = [one.plan for one in done.requests]
        _tell_why_not(plans, done.stopping, " ".join(_words(request)))
    for one in done.applied:
        _print(one)
    return code


def _tell_why_not(plans: list[Plan], stopping: Sequence[Decision], source: str) -> None:
    if stopping:
        count = counted(len(stopping), "patch")
        only_unsure = all(d.is_unsure and not d.missed for d in stopping)
        why = "without a sure state" if only_unsure else "cannot be applied"
        click.echo(f"nothing was written: {count} {why}", err=True)
        click.echo(f"  next: vpatch status {source} --why {stopping[0].patch.id}", err=True)
    else:
        click.echo(f"nothing was written: there is no patch to apply: {states_of(plans)}", err=True)
        click.echo("  next: name a patch that is needed there, or name none", err=True)


def _words(request: Request) -> Iterator[str]:
    if request.vllm:
        yield f"--vllm {shlex.quote(request.vllm)}"
    if request.recipe:
        yield f"--recipe {shlex.quote(request.recipe)}"
    yield from (f"--tree {shlex.quote(tree)}" for tree in request.trees)


def _chosen(one: ApplyRequest, request: Request, context: Context) -> str:
    if one.recipe:
        return f"recipe {one.recipe}"
    if request.patches:
        return ""
    own_only = context.library.of_project and not request.library
    return f"no recipe: every patch{' of the project' if own_only else ''} that it needs"


def _print(applied: Applied) -> None:
    target, lock = applied.request.target, applied.written
    if applied.outcome == "unchanged":
        _echo(f"{target} already is exactly this; nothing was written")
        return
    count = counted(len(lock.patches), "patch")
    _echo(f"{target}  {count} on the pristine tree {lock.base[:12]}")
    for patch in lock.patches:
        click.echo(f"  {patch.commit[:12]}  {patch.id}")
    _echo(f"{target / LOCK_FILE}  {counted(len(lock.files), 'file')} changed")
    if applied.changes is not None:
        _echo(str(applied.changes))
    version = build_version(lock)
    if version is not None:
        _echo(f"to build it: SETUPTOOLS_SCM_PRETEND_VERSION={version}")


def _echo(text: str) -> None:
    for line in wrapped(text, line_width()):
        click.echo(line)
