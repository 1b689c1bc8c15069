"""vpatch cache: the trees that were fetched."""

from __future__ import annotations

import click

from vpatch.cli import render
from vpatch.cli.session import Session, json_option
from vpatch.errors import ExitCode


@click.group("cache")
def command() -> None:
    """Look at, or empty, the cache of fetched trees."""


@command.command("list")
@json_option
def list_entries(*, as_json: bool) -> ExitCode:
    """List the cached trees."""
    cache = Session().cache
    entries = cache.list()
    if as_json:
        found = [{"tree": e.label, "digest": e.digest, "bytes": e.size} for e in entries]
        render.print_json({"folder": str(cache.folder), "trees": found})
        return ExitCode.CLEAN
    for entry in entries:
        click.echo(f"{entry.label:<28} {entry.size / 1e6:8.1f} MB  {entry.digest}")
    total = sum(entry.size for entry in entries) / 1e6
    click.echo(f"{render.counted(len(entries), 'tree')}, {total:.1f} MB in {cache.folder}")
    return ExitCode.CLEAN


@command.command("clear")
@click.argument("trees", nargs=-1, metavar="[TREE]...")
@json_option
def clear(trees: tuple[str, ...], *, as_json: bool) -> ExitCode:
    """Remove trees, as `vllm-0.23.0`, or without a name all of them. Checkouts are not touched."""
    session = Session()
    freed = session.cache.clear(trees or None, session.progress)
    if as_json:
        render.print_json({"freed-bytes": freed})
    else:
        click.echo(f"{freed / 1e6:.1f} MB freed")
    return ExitCode.CLEAN
