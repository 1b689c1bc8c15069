"""vpatch check: the drift gate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.check import damage, drift
from vpatch.cli import render
from vpatch.cli.checkout import find_lock, refuse_untrusted, tree_of
from vpatch.cli.session import Session, json_option, library_options, offline_option
from vpatch.errors import ExitCode, UsageError
from vpatch.outcome import none_taken
from vpatch.plan import plan
from vpatch.relock import AskedAgain, ask_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.lock import Lock
    from vpatch.outcome import Plan


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
    session = Session(patches, recipes, offline)
    if lock_file is not None and vllm is not None:
        raise UsageError("--lock and --vllm both name a lock", todo="give one of the two")
    path, lock = find_lock(session, vllm, target, lock_file)
    asked = ask_again(lock, session.library)
    with tree_of(session, lock) as tree:
        made = plan(asked.patches, tree)
        refuse_untrusted(session, made)
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
        words = shlex.join(_words(session, lock, target))
        again = f"vpatch apply {words}"
        if damaged:
            again = f"save what is yours in the checkout, then {again} --force"
        click.echo(f"  next: {_what_blocks(lock, made, asked) or again}")
    else:
        count = render.counted(len(lock.patches), "patch")
        files = render.counted(len(lock.files), "file")
        click.echo(f"{path}: {count} and {files} are exactly as locked")
    return ExitCode.FINDINGS if found else ExitCode.CLEAN


def _what_blocks(lock: Lock, made: Plan, asked: AskedAgain) -> str | None:
    """What has to be done before vpatch apply can go on; None where nothing does."""
    which = shlex.join(_source(lock))
    if asked.lost:
        return "bring back what is gone, or apply another recipe or other patches"
    if asked.moved:
        return f"vpatch status {which} says what the patches mean there, before you apply them"
    asked_for = bool(lock.recipe or lock.chosen)
    stopping = made.stopping(asked_for=asked_for)
    if stopping:
        return f"vpatch status {which} --why {stopping[0].patch.id}, as vpatch apply refuses this"
    if asked_for and none_taken([made]):
        return "ask for a patch that is needed there, as vpatch apply refuses to apply none"
    return None


def _source(lock: Lock) -> Iterator[str]:
    """The options that name a lock's recipe, or its source."""
    source = lock.source
    if lock.recipe is not None:
        yield from ("--recipe", lock.recipe)
        return
    place = source.version if source.kind == "pypi" else source.origin
    if source.kind == "git":
        place = f"{source.origin}@{source.ref}"
    if source.tree == "vllm":
        yield from ("--vllm", str(place))
    else:
        yield from ("--tree", f"{source.tree}{'==' if source.kind == 'pypi' else '='}{place}")


def _words(session: Session, lock: Lock, target: Path | None) -> Iterator[str]:
    """What to give vpatch apply so that it makes the lock's checkout anew."""
    yield from _source(lock)
    for patch_id in lock.chosen:
        yield from ("--patch", patch_id)
    if target is not None:
        yield from ("--to", str(target))
    for option, folders in (("--patches", session.patches), ("--recipes", session.recipes)):
        for folder in folders:
            yield from (option, str(folder))
