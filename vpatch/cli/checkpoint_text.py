"""What vpatch checkpoint prints for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.cli import render
from vpatch.cli.output import secho, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.checkpoint.findings import CheckpointFinding
    from vpatch.checkpoint.graft import Grafted
    from vpatch.checkpoint.ignore import Judged
    from vpatch.checkpoint.inspection import Amount, Inspection
    from vpatch.checkpoint.needs import Need
    from vpatch.checkpoint.tokenizer import Tokenizer

_SHOWN = 3


def print_inspection(
    found: Inspection, tokenizer: Tokenizer, needs: Sequence[tuple[Need, str | None]]
) -> None:
    checkpoint = found.checkpoint
    layers = f", {render.counted(checkpoint.layers, 'layer')}" if checkpoint.layers else ""
    secho(f"{checkpoint.architecture or 'no architecture named'}{layers}", bold=True)
    shards = render.counted(len(checkpoint.shards), "shard")
    if checkpoint.missing:
        shards += f", {len(checkpoint.missing)} missing"
    _line("shards", f"{shards}, {size_of(sum(a.size for a in found.by_dtype.values()))}")
    _line("tensors", ", ".join(_amount(*item) for item in found.by_dtype.items()) or "none")
    _print_quantisation(found)
    _print_mtp(found)
    _line("tokenizer", _tokenizer(tokenizer))
    family = found.mtp.family
    if family:
        _line("vLLM", f"{family.since} or later runs its MTP")
    for need, releases in needs:
        _line("patch", f"{need.patch}{f' (vLLM {releases})' if releases else ''}: {need.reason}")


def print_findings(findings: Sequence[CheckpointFinding]) -> None:
    for finding in findings:
        label, colour = ("finding", "red") if finding.fault else ("note", "yellow")
        click.echo(f"{style(f'{label}:', fg=colour)} {finding.what}")
        if finding.hint:
            click.echo(f"  next: {finding.hint}")


def print_lists(found: Inspection) -> None:
    if not found.judged:
        click.echo("no list of config.json says what is not quantised")
    for judged in found.judged:
        names = render.counted(len(judged.entries), "pattern")
        click.echo(
            f"{judged.ignored.where}: {names}, compared with names: {judged.ignored.matching.value}"
        )
        for entry in judged.entries:
            _print_entry(entry)
        for name in judged.split:
            click.echo(f"  {name} is made of modules of which some are named and some are not:")
            click.echo("    vLLM has one format for it; name all of them, or none")


def print_grafted(done: Grafted) -> None:
    if not done.changed:
        click.echo(f"nothing to do: {render.counted(len(done.there), 'MTP tensor')} as they are")
        return
    if done.shard:
        tensors = render.counted(len(done.written), "MTP tensor")
        click.echo(f"{done.shard.name}: {tensors}, {size_of(done.size)}, read back")
    if done.there:
        click.echo(f"{render.counted(len(done.there), 'MTP tensor')} there already")
    for (old, new), count in done.converted.items():
        click.echo(f"  {render.counted(count, 'tensor')} {old} made {new}")
    if done.keys and done.backup:
        click.echo(f"config.json: {', '.join(done.keys)}; {done.backup.name} is what it was")
    if done.index:
        click.echo("model.safetensors.index.json leads to them")


def size_of(count: int) -> str:
    """Return bytes in the unit that fits, such as 12.3 MB."""
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "bytes" else f"{value:.1f} {units[0]}"


def _line(label: str, text: str) -> None:
    click.echo(f"  {label:<13} {text}")


def _amount(dtype: str, amount: Amount) -> str:
    return f"{amount.tensors} {dtype} ({size_of(amount.size)})"


def _print_quantisation(found: Inspection) -> None:
    quantised = found.quantisation
    if quantised is None:
        _line("quantisation", "none in config.json")
        return
    _line("quantisation", ", ".join([quantised.method, *quantised.bits]))
    for judged in found.judged:
        hit = {name for entry in judged.entries for name in entry.run}
        names = render.counted(len(judged.entries), "pattern")
        modules = render.counted(len(hit), "module")
        _line("", f"{judged.ignored.where}: {names} for {modules} in vLLM")


def _print_mtp(found: Inspection) -> None:
    mtp = found.mtp
    declared = ", ".join(f"{one.key} {one.count}" for one in mtp.declared)
    _line("MTP", f"declared: {declared or 'no'}")
    if mtp.scheme is None:
        _line("", "tensors: none")
        return
    layers = render.counted(len(mtp.layers), "layer")
    _line("", f"tensors: {len(mtp.names)} of {layers}, called {mtp.scheme.name}")
    head, trunk = found.formats(mtp=True), found.formats(mtp=False)
    _line("", f"matrices: {_kinds(head)}; the trunk's: {_kinds(trunk)}")


def _kinds(formats: dict[str, Amount]) -> str:
    return ", ".join(f"{amount.tensors} {kind}" for kind, amount in formats.items()) or "none"


def _tokenizer(tokenizer: Tokenizer) -> str:
    if tokenizer.name is None:
        return "no class named"
    if tokenizer.own_code:
        return f"{tokenizer.name}, with code of its own"
    if tokenizer.known is None:
        return tokenizer.name
    verb = "has it" if tokenizer.known else "does not have it"
    return f"{tokenizer.name}; transformers {tokenizer.transformers} {verb}"


def _print_entry(entry: Judged) -> None:
    click.echo(f"  {entry.entry}")
    if entry.fault:
        secho(f"    {entry.fault}", fg="red")
        return
    click.echo(f"    on disk  {_names(entry.disk)}")
    click.echo(f"    in vLLM  {_names(entry.run)}")
    if entry.missed:
        before = f", before {entry.until}" if entry.until else ""
        click.echo(style(f"    missed   {_names(entry.missed)}{before}", fg="red"))
        click.echo(f"    better   {'  '.join(entry.better)}")


def _names(names: Sequence[str]) -> str:
    if not names:
        return "nothing"
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
