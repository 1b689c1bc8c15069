"""vpatch cache: the trees that were fetched, and the engines and overlays that were made."""

from __future__ import annotations

import click

from vpatch.commands.cache.output import CacheClearOutput, CacheListOutput
from vpatch.commands.cache.usecase import clear_cache
from vpatch.console.options import json_option, open_context
from vpatch.console.output import Group
from vpatch.console.result import CommandResult
from vpatch.engine.environment import managed_folders
from vpatch.engine.overlay_cache import list_overlays
from vpatch.errors import ExitCode
from vpatch.source.cache import KINDS
from vpatch.util.disk_size import disk_size
from vpatch.util.plural import counted


@click.group("cache", cls=Group)
def command() -> None:
    """List or clear what vpatch keeps.

    It keeps fetched trees, engines and overlays.
    """


@command.command("list")
@json_option
def list_entries(*, as_json: bool) -> CommandResult | ExitCode:
    """List the cached trees, engines and overlays, and everything else in the cache."""
    cache = open_context().cache
    entries = cache.list()
    engines = {path.name: disk_size(path) for path in managed_folders(cache.folder)}
    overlays = list_overlays(cache.folder)
    kinds = cache.kinds()
    if as_json:
        shown = CacheListOutput(
            folder=cache.folder,
            trees=entries,
            engines=[{"engine": name, "bytes": size} for name, size in engines.items()],
            overlays=overlays,
            others=[{"kind": kind, "bytes": size} for kind, size in kinds.items()],
        )
        return CommandResult(shown)
    remark_on_kept = "  kept: --print-env printed its path"
    rows = [(entry.label, entry.size, f"  {entry.digest}") for entry in entries]
    rows += [(name, size, "") for name, size in engines.items()]
    rows += [(one.name, one.size, remark_on_kept if one.is_kept else "") for one in overlays]
    rows += [(kind, size, f"  {KINDS[kind]}") for kind, size in kinds.items()]
    for name, size, remark in rows:
        click.echo(f"{name:<28} {size / 1e6:8.1f} MB{remark}")
    total = sum(size for _, size, _ in rows) / 1e6
    counts = [counted(len(entries), "tree")]
    further = {"engine": len(engines), "overlay": len(overlays)}
    counts += [counted(number, noun) for noun, number in further.items() if number]
    click.echo(f"{', '.join(counts)}, {total:.1f} MB in {cache.folder}")
    return ExitCode.CLEAN


@command.command("clear")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def clear(names: tuple[str, ...], *, as_json: bool) -> CommandResult | ExitCode:
    """Remove entries that `vpatch cache list` shows, or everything without a NAME.

    Checkouts stay as they are. So does an overlay of `vpatch run` while something runs with it.
    An overlay whose path `vpatch run --print-env` printed goes only if it is named.
    """
    freed = clear_cache(open_context(), names)
    if as_json:
        return CommandResult(CacheClearOutput(freed_bytes=freed))
    click.echo(f"{freed / 1e6:.1f} MB freed")
    return ExitCode.CLEAN
