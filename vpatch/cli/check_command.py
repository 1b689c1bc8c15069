"""vpatch check: the drift gate."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from vpatch.app.check import apply_options_of, what_blocks
from vpatch.app.checkout import find_lock, refuse_untrusted, tree_of
from vpatch.app.relock import ask_again
from vpatch.checkout.drift import damage, drift
from vpatch.cli import render
from vpatch.cli.options import json_option, library_options, offline_option, open_context
from vpatch.errors import ExitCode, UsageError
from vpatch.planning.plan import plan


@click.command("check")
@click.option("--vllm", metavar="VERSION", help="The checkout of this version.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="The checkout's folder.")
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(path_type=Path),
    help="A lock kept elsewhere; without a checkout, only the patches are checked against it.",
)
@offline_option
@library_options
@json_option
def command(
    vllm: str | None,
    target: Path | None,
    lock_file: Path | None,
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    *,
    offline: bool,
    as_json: bool,
) -> ExitCode:
    """Apply the patches again, in memory, and compare every byte with the lock and the checkout.

    Ends with 1 and says what differs: a recipe with another pin or other patches, a patch that was
    edited or is new, a source that is not the one that was locked, a file that was changed in the
    checkout.
    """
    context = open_context(patches, recipes, offline)
    if lock_file is not None and vllm is not None:
        raise UsageError("--lock and --vllm both name a lock", todo="give one of the two")
    path, lock = find_lock(context, vllm, target, lock_file)
    asked = ask_again(lock, context.library)
    with tree_of(context, lock) as tree:
        made = plan(asked.patches, tree)
        refuse_untrusted(context, made)
    drifted = [*asked.differences, *drift(lock, made)]
    checkout = target if lock_file is not None else path.parent
    damaged = list(damage(lock, checkout)) if checkout is not None else []
    found = drifted + damaged
    if as_json:
        render.print_json({"lock": str(path), "differences": found})
    elif found:
        click.echo(f"{path}: {render.counted(len(found), 'difference')}")
        for line in found:
            click.echo(f"  {line}")
        words = shlex.join(apply_options_of(context, lock, target))
        again = f"vpatch apply {words}"
        if damaged:
            again = f"save what is yours in the checkout, then {again} --force"
        click.echo(f"  next: {what_blocks(lock, made, asked) or again}")
    else:
        count = render.counted(len(lock.patches), "patch")
        files = render.counted(len(lock.files), "file")
        click.echo(f"{path}: {count} and {files} are exactly as locked")
    return ExitCode.FINDINGS if found else ExitCode.CLEAN
