"""vpatch check: the drift gate."""

from __future__ import annotations

from pathlib import Path

import click

from vpatch.check import damage, drift
from vpatch.cli import render
from vpatch.cli.checkout import find_lock, planned_again
from vpatch.cli.session import Session, json_option, library_options, offline_option
from vpatch.errors import ExitCode, UsageError


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

    Ends with 1 and says what differs: a patch that was edited, a source that is not the one that
    was locked, a file that was changed in the checkout.
    """
    session = Session(patches, recipes, offline)
    if lock_file is not None and vllm is not None:
        raise UsageError("--lock and --vllm both name a lock", todo="give one of the two")
    path, lock = find_lock(session, vllm, target, lock_file)
    with planned_again(session, lock) as (_, made):
        found = list(drift(lock, made))
    drifted = bool(found)
    checkout = target if lock_file is not None else path.parent
    if checkout is not None:
        found += damage(lock, checkout)
    if as_json:
        render.print_json({"lock": str(path), "differences": found})
    elif found:
        click.echo(f"{path}: {render.counted(len(found), 'difference')}")
        for line in found:
            click.echo(f"  {line}")
        if drifted:
            click.echo(
                "  next: vpatch apply makes checkout and lock of the patches as they are now"
            )
        else:
            click.echo("  next: save what is yours in the checkout, then vpatch apply --force")
    else:
        count = render.counted(len(lock.patches), "patch")
        files = render.counted(len(lock.files), "file")
        click.echo(f"{path}: {count} and {files} are exactly as locked")
    return ExitCode.FINDINGS if found else ExitCode.CLEAN
