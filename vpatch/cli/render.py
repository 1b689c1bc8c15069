"""Decisions in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.cli.output import secho, style
from vpatch.planning.proven import proof_of
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin

COLOURS = {
    State.NEEDED: "green",
    State.APPLIED: "cyan",
    State.UPSTREAMED: "blue",
    State.ABSENT: "bright_black",
    State.BLOCKED: "red",
    State.CONFLICT: "red",
    State.UNTRUSTED: "magenta",
}
_DIGITS = 12
_SHOWN = 20


def styled(state: State, width: int = 0) -> str:
    return style(f"{state:<{width}}", fg=COLOURS[state])


def print_pin(pin: Pin, chosen: str = "") -> None:
    """The tree in one line, and how its patches were chosen."""
    name, _, digits = pin.digest.partition(":")
    secho(f"{pin.tree} {pin.version or pin.ref or ''}".rstrip(), bold=True, nl=False)
    click.echo(f"  {pin.origin}  {name}:{digits[:_DIGITS]}", nl=False)
    click.echo(f"  {chosen}".rstrip())


def print_decisions(decisions: Sequence[Decision]) -> None:
    """One line a decision, and what else must be known of it below."""
    if not decisions:
        click.echo("  no patch concerns this tree")
    width = max((len(d.patch.id) for d in decisions), default=0)
    indent = " " * (width + 16)
    for decision in decisions:
        reason = decision.reason.replace("\n", f"\n{indent}")
        click.echo(f"  {styled(decision.state, 10)}  {decision.patch.id:<{width}}  {reason}")
        if decision.state.stops:
            print_findings(decision, indent)
        if decision.disagreement:
            secho(f"{indent}{decision.disagreement}", fg="yellow")
        if decision.shape is not None and decision.differs_from_record:
            secho(f"{indent}{describe_shape(decision.shape)}", fg="yellow")


def print_shape(decision: Decision, tree: str, indent: str) -> None:
    """Whether the code is known, and how a known shape was proven."""
    shape, shapes = decision.shape, decision.patch.shapes
    if shape is None:
        return
    secho(f"{indent}{describe_shape(shape)}", fg="yellow" if decision.new_shape else None)
    if shape.known and shapes is not None:
        click.echo(f"{indent}{proof_of(shapes, tree, shape.known[-1]).said}")


def print_findings(decision: Decision, indent: str) -> None:
    for finding in decision.findings[:_SHOWN]:
        where = f"{finding.where}: " if finding.where else ""
        click.echo(f"{indent}{where}{finding.what}")
    if len(decision.findings) > _SHOWN:
        more = len(decision.findings) - _SHOWN
        click.echo(f"{indent}and {more} more: narrow the edit with within, where or files")
