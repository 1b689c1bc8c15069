"""vpatch apply: declared patches on a pinned tree, as a git checkout."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.app import selection
from vpatch.app.checkout import order_for, states_of
from vpatch.checkout.apply import Applied, ApplyRequest, apply
from vpatch.cli import render
from vpatch.cli.options import (
    json_option,
    library_options,
    open_context,
    request_from,
    source_options,
)
from vpatch.errors import ExitCode, UsageError
from vpatch.planning.state import none_taken
from vpatch.source.tree import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.app.context import Context
    from vpatch.planning.state import Decision, Plan


@click.command("apply")
@source_options
@library_options
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    help="The checkout's folder  [default: .vpatch/TREE-VERSION in the project]",
)
@click.option("--force", is_flag=True, help="Overwrite a checkout that holds your changes.")
@json_option
def command(
    vllm: str | None,
    recipe: str | None,
    trees: tuple[str, ...],
    only: tuple[str, ...],
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    target: Path | None,
    *,
    offline: bool,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Apply patches to a pinned vLLM, a commit each, and write what was done to vpatch.lock.

    Nothing is written unless every patch is either applied or not needed.
    """
    context = open_context(patches, recipes, offline)
    asked = selection.resolve(request_from(vllm, recipe, trees, only), context.library)
    if asked[0].recipe and not recipe:
        _tell_of_patches_left(context, asked)
    for patch in {patch.id: patch for job in asked for patch in job.left}.values():
        reason = patch.declaration.on_request or "it requires one that is"
        context.progress.note(f"{patch.id} is left out, as it is on request: {reason}")
    if target is not None and len(asked) > 1:
        raise UsageError(
            "--to names one folder, and there are several trees", todo="apply them one by one"
        )
    asked_for = bool(asked[0].recipe or only)
    with ExitStack() as stack:
        orders = [order_for(job, target, context, stack) for job in asked]
        plans = [order.plan for order in orders]
        if not as_json:
            for order in orders:
                render.print_pin(order.plan.pin, _chosen(order, only))
                render.print_decisions(order.plan.decisions)
        stopping = [d for made in plans for d in made.stopping(asked_for=asked_for)]
        idle = asked_for and not stopping and none_taken(plans)
        refused = bool(stopping) or idle
        applied = [] if refused else apply(orders, force=force, progress=context.progress)
    if as_json:
        render.print_json([_as_json(order.plan, order.recipe, applied) for order in orders])
    elif refused:
        _tell_why_not(plans, stopping, " ".join(_source_options(vllm, recipe, trees)))
    for one in applied:
        if not as_json:
            _print(one)
    return ExitCode.FINDINGS if refused else ExitCode.CLEAN


def _tell_why_not(plans: list[Plan], stopping: list[Decision], source: str) -> None:
    if stopping:
        count = render.counted(len(stopping), "patch")
        click.echo(f"nothing was written: {count} cannot be applied", err=True)
        click.echo(f"  next: vpatch status {source} --why {stopping[0].patch.id}", err=True)
    else:
        click.echo(f"nothing was written: no patch is left to apply: {states_of(plans)}", err=True)
        click.echo("  next: ask for a patch that is needed there, or for none", err=True)


def _tell_of_patches_left(context: Context, asked: list[selection.Selection]) -> None:
    taken = {patch.id for job in asked for patch in job.patches}
    for left in sorted(context.library.own - taken):
        context.progress.note(f"the recipe {asked[0].recipe} does not take {left}, one of yours")


def _source_options(vllm: str | None, recipe: str | None, trees: tuple[str, ...]) -> Iterator[str]:
    if vllm:
        yield f"--vllm {shlex.quote(vllm)}"
    if recipe:
        yield f"--recipe {shlex.quote(recipe)}"
    yield from (f"--tree {shlex.quote(tree)}" for tree in trees)


def _chosen(order: ApplyRequest, only: tuple[str, ...]) -> str:
    if order.recipe:
        return f"recipe {order.recipe}"
    return "" if only else "no recipe: every patch that it needs"


def _print(applied: Applied) -> None:
    target, lock = applied.order.target, applied.lock
    if applied.outcome == "unchanged":
        click.echo(f"{target} already is exactly this; nothing was written")
        return
    count = render.counted(len(lock.patches), "patch")
    click.echo(f"{target}  {count} on the pristine tree {lock.base[:12]}")
    for patch in lock.patches:
        click.echo(f"  {patch.commit[:12]}  {patch.id}")
    click.echo(f"{target / LOCK_FILE}  {render.counted(len(lock.files), 'file')} changed")


def _as_json(made: Plan, recipe: str | None, applied: list[Applied]) -> dict[str, Any]:
    document = render.plan_as_json(made, recipe)
    for one in applied:
        if one.order.plan is made:
            document |= {
                "target": str(one.order.target),
                "outcome": one.outcome,
                "lock": one.lock.model_dump(mode="json"),
            }
    return document
