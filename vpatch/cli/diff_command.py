"""vpatch diff: what the patches change, as a unified diff of fixed bytes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from vpatch.app.checkout import find_lock, planned_again
from vpatch.checkout.commits import commits_of
from vpatch.cli.options import library_options, offline_option, open_context
from vpatch.errors import ExitCode, UsageError
from vpatch.git import checkout as git


@click.command("diff")
@click.argument("ids", nargs=-1, metavar="[PATCH]...")
@click.option("--vllm", metavar="VERSION", help="The checkout of this version.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="The checkout's folder.")
@offline_option
@library_options
def command(
    ids: tuple[str, ...],
    vllm: str | None,
    target: Path | None,
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    *,
    offline: bool,
) -> ExitCode:
    """Print what the patches of a checkout change: all of them together, or each one named.

    The diff is made from the lock and the patches as they are declared now.
    """
    context = open_context(patches, recipes, offline)
    _, lock = find_lock(context, vllm, target, None)
    known = [patch.id for patch in lock.patches]
    for patch_id in ids:
        if patch_id not in known:
            raise UsageError(
                f"the checkout has no patch {patch_id!r}",
                todo=f"choose among: {', '.join(known) or 'none'}",
            )
    with planned_again(context, lock) as (tree, made):
        repository, base = tree.base_repository(context.progress)
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder) / "repo"
            git.create_checkout(scratch, repository, base, [])
            commits = git.add_commits(scratch, base, commits_of(made))
            line = [base, *commits]
            taken = [decision.patch.id for decision in made.taken]
            missing = [patch_id for patch_id in ids if patch_id not in taken]
            if missing:
                raise UsageError(
                    f"{missing[0]} is not needed any more, so it changes nothing",
                    todo="run vpatch check",
                )
            if ids:
                ranges = [(line[taken.index(i)], line[taken.index(i) + 1]) for i in ids]
            else:
                ranges = [(base, line[-1])]
            for before, after in ranges:
                text = git.diff(scratch, before, after)
                # For programs as it is, and for people as nothing that a terminal would obey.
                shown = text.decode(errors="surrogateescape") if sys.stdout.isatty() else text
                click.echo(shown, nl=False)
    return ExitCode.CLEAN
