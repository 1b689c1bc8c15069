"""vpatch trust: which code of projects may run, as the user decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.trust.output import TrustedPathOutput, TrustOutput
from vpatch.commands.trust.usecase import (
    paths_to_trust,
    revoke_trust,
    trust_folders,
    trust_paths,
)
from vpatch.console.options import json_option, open_context
from vpatch.console.output import style
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode, UnusedOptionError
from vpatch.github.tokens import host_named
from vpatch.trust.store import Store, default_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.trust.decision import State
    from vpatch.trust.store import Content

_DIGITS = 12
_COLOURS: dict[State, str] = {
    "shipped": "bright_blue",
    "trusted": "green",
    "changed": "red",
    "not trusted": "yellow",
}


@click.command("trust")
@click.argument(
    "paths", nargs=-1, metavar="[FOLDER]...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--folder",
    "for_good",
    is_flag=True,
    help="Trust all that is ever in FOLDER, whoever changes it, until you revoke that.",
)
@renamed_option(
    "--dry-run",
    "show",
    old="--show",
    is_flag=True,
    help="Show what would be trusted, but record nothing.",
)
@click.option("--list", "listing", is_flag=True, help="List everything that you trust.")
@click.option("--revoke", is_flag=True, help="Stop trusting everything in FOLDER.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Allow tokens to be sent to this host; repeatable.",
)
@json_option
def command(
    paths: tuple[Path, ...],
    hosts: tuple[str, ...],
    *,
    for_good: bool,
    show: bool,
    listing: bool,
    revoke: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Allow a project's code to run.

    That is the code of its patches, recipes and targets as they are now. FOLDER is a project (by
    default the current folder), the folder of one patch, or the file of a recipe or target. vpatch
    shows every file with its digest. If a file changes or is added later, that patch's code does
    not run until you trust it again. With --folder, it does: use that for folders that only you
    write to. What `git pull` brings into such a folder may run, too.

    Edits that are only declared need no trust. Code does: codemod.py, behaviour tests, and whatever
    a real vLLM runs for this project.
    """
    if sum((show, listing, revoke)) > 1 or (listing and (paths or hosts)):
        raise ConflictingOptionsError("these options exclude each other", hint="give one of them")
    if for_good and (listing or revoke):
        raise UnusedOptionError(
            "--folder would have no effect with --list or --revoke",
            hint="leave it out: both concern trusted folders, too",
        )
    context = open_context()
    store = Store(default_folder())
    if listing:
        return _list(store, as_json=as_json)
    names = [host_named(host) for host in hosts]
    if revoke:
        roots = paths or (() if hosts else (context.project.folder,))
        return _revoke(store, roots, names, as_json=as_json)
    folders: list[Path] = []
    trusted: list[tuple[Path, State, Content]] = []
    if for_good:
        roots = paths or (context.project.folder,)
        folders = trust_folders(store, roots, record=not show)
    else:
        chosen = paths_to_trust(context, paths, hosts)
        trusted = trust_paths(context, store, chosen, record=not show)
    for host in names if not show else ():
        store.add("host", host, "")
    if as_json:
        shown = [
            TrustedPathOutput(path=path, state=state, digest=one.digest, files=one.digests)
            for path, state, one in trusted
        ]
        return CommandResult(TrustOutput(paths=shown, folders=folders, hosts=names, records=[]))
    _print(trusted, folders, names, show=show)
    return ExitCode.CLEAN


def _print(
    trusted: Sequence[tuple[Path, State, Content]],
    folders: Sequence[Path],
    hosts: Sequence[str],
    *,
    show: bool,
) -> None:
    for path, state, content in trusted:
        label = style(state, fg=_COLOURS[state])
        click.echo(f"{label}  {_name(str(path))}  {_short(content.digest)}")
        for file, digest in content.digests.items():
            click.echo(f"  {digest[:_DIGITS]}  {_name(file)}")
    verb = "would be trusted" if show else "trusted"
    for folder in folders:
        click.echo(f"{verb}  all that is ever in {_name(str(folder))}")
    for host in hosts:
        click.echo(f"{verb}  host {host}")
    if show:
        click.echo("nothing was recorded; without --dry-run it is")
    else:
        count = len(trusted) + len(folders) + len(hosts)
        click.echo(f"{count} recorded in {default_folder()}")


def _list(store: Store, *, as_json: bool) -> CommandResult | ExitCode:
    records = list(store)
    if as_json:
        return CommandResult(TrustOutput(paths=[], folders=[], hosts=[], records=records))
    for record in records:
        digest = f"  {_short(record.digest)}" if record.digest else ""
        click.echo(f"{record.kind:<4}  {_name(record.name)}{digest}  since {record.since}")
    if not records:
        click.echo("nothing is trusted but what came with vpatch")
    return ExitCode.CLEAN


def _revoke(
    store: Store, paths: Sequence[Path], hosts: Sequence[str], *, as_json: bool
) -> CommandResult | ExitCode:
    gone = revoke_trust(store, paths, hosts)
    if as_json:
        return CommandResult(TrustOutput(paths=[], folders=[], hosts=[], records=gone))
    for record in gone:
        click.echo(f"not trusted any more  {_name(record.name)}")
    if not gone:
        click.echo("nothing there was trusted")
    return ExitCode.CLEAN


def _name(text: str) -> str:
    """A name that somebody else chose: in one line, whatever it is."""
    return text if text.isprintable() else repr(text)


def _short(digest: str) -> str:
    name, _, digits = digest.partition(":")
    return f"{name}:{digits[:_DIGITS]}"
