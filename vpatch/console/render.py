"""Decisions in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.console.output import style
from vpatch.planning.state import State
from vpatch.planning.telling import ToldText, told_briefly
from vpatch.util.wrapping import line_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin

COLOURS = {
    State.NEEDED: "green",
    State.APPLIED: "cyan",
    State.UPSTREAMED: "bright_blue",
    State.ABSENT: "bright_black",
    State.NOT_DECLARED: "bright_black",
    State.BLOCKED: "red",
    State.CONFLICT: "red",
    State.UNTRUSTED: "magenta",
}
_DIGITS = 12
_STATE = 10
# Where the id of a patch begins, and its reason if the terminal is too narrow to have it beside.
_BESIDE = _STATE + 4


def styled(state: State, width: int = 0) -> str:
    return style(f"{state:<{width}}", fg=COLOURS[state])


def print_pin(pin: Pin, chosen: str = "") -> None:
    """The tree in one line, and how its patches were chosen."""
    kind, _, digits = pin.digest.partition(":")
    name = f"{pin.tree} {pin.version or pin.ref or ''}".rstrip()
    first, *more = wrapped(
        f"{name}  {pin.origin}  {kind}:{digits[:_DIGITS]}  {chosen}", line_width()
    )
    click.echo(style(name, bold=True) + first.removeprefix(name))
    for line in more:
        click.echo(line)


def print_decisions(decisions: Sequence[Decision]) -> None:
    """One line a decision, and what else must be known of it below."""
    if not decisions:
        click.echo("  no patch concerns this tree")
    width, names = line_width(), max((len(d.patch.id) for d in decisions), default=0)
    states = max([_STATE, *(len(d.state) for d in decisions)])
    for decision in decisions:
        texts = list(told_briefly(decision))
        head = f"  {styled(decision.state, states)}  {decision.patch.id}"
        column = _BESIDE + states - _STATE + names + 2
        if column + max(len(line) for one in texts for line in one.text.split("\n")) > width:
            click.echo(head)
            print_told(texts, _BESIDE, width)
            continue
        beside, *below = texts[0].text.split("\n")
        click.echo(f"{head}{' ' * (names - len(decision.patch.id))}  {beside}")
        print_told([*map(ToldText, below), *texts[1:]], column, width)


def print_told(texts: Iterable[ToldText], at: int, width: int) -> None:
    for one in texts:
        for line in wrapped(one.text, width, at=at + one.at):
            text = line.lstrip()
            click.echo(line.removesuffix(text) + (style(text, fg="yellow") if one.warns else text))
