"""What reaches the terminal: all that is printed passes here.

Text of others is shown as `visible` makes it. The styles of vpatch's own carry a number that is
drawn anew in each run, so that nobody else's text can have one.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click

from vpatch.console.common_options import check_options_before
from vpatch.console.usage import unknown_command
from vpatch.util.log_output import RunLog
from vpatch.util.losable_stream import LosableStream
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

_START = "\x1b["
# From the source that `secrets` uses. Its import would take a tenth of `vpatch --help`.
_OWN = f"{_START}{int.from_bytes(os.urandom(8)) % 10**9 + 10**9};"
_STYLE = re.compile(f"{re.escape(_OWN)}([0-9;]*m)")


class Bar(Protocol):
    """A line at the end of the terminal that is drawn again and again."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Erase the line."""


# The bars on the terminal now. What is printed takes their place, and they come below it. The lock
# is for Ray, which prints from a thread of its own.
_BARS: list[Bar] = []
_DRAWING = threading.RLock()


def show_bar(bar: Bar) -> None:
    with _DRAWING:
        bar.start()
        _BARS.append(bar)


def remove_bar(bar: Bar) -> None:
    with _DRAWING:
        if bar in _BARS:
            _BARS.remove(bar)
        bar.stop()


def remove_bars() -> None:
    """Give the terminal back, also if an error ended the task that a bar belongs to."""
    with _DRAWING:
        while _BARS:
            _BARS.pop().stop()


def style(text: str, **styles: Any) -> str:
    """As `click.style`, and the only way to a style: others' sequences are shown as text."""
    return click.style(text, **styles).replace(_START, _OWN)


def secho(text: str, *, nl: bool = True, err: bool = False, **styles: Any) -> None:
    """As `click.secho`."""
    click.echo(style(text, **styles), nl=nl, err=err)


def echo_code(code: bytes) -> None:
    """Print code for programs as it is, and for people as nothing that a terminal would obey."""
    click.echo(code.decode(errors="surrogateescape") if sys.stdout.isatty() else code, nl=False)


class Group(click.Group):
    """Shows the first sentence of each command in full; click cuts it at the end of the line.

    Of a command that is not there, it names the nearest that is.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if not name.startswith("-") and name not in known:
            raise unknown_command(ctx.command_path, name, known)
        log = ctx.find_object(RunLog)
        if log is not None and name in known:
            # Before the command is imported, which may fail as well.
            log.command.append(name)
        resolved = super().resolve_command(ctx, args)
        if resolved[1] is not None:
            check_options_before(ctx, resolved[1])
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, command.get_short_help_str(1000)) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@contextmanager
def made_visible() -> Iterator[None]:
    """Let nothing but text and vpatch's own styles through standard output and error."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _over(sys.stdout, _Visible), _over(sys.stderr, _VisibleOrLost)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Visible):
                # Or it would close what it writes to.
                stream.detach()
        sys.stdout, sys.stderr = before


def _over(stream: TextIO, kind: type[_Visible]) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    # What an encoding has not is shown as its code, too: a message must not end in another error.
    return kind(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Visible(io.TextIOWrapper):
    def write(self, text: str) -> int:
        # Text and the codes of own styles by turns.
        parts = _STYLE.split(text)
        shown = [_START + part if place % 2 else visible(part) for place, part in enumerate(parts)]
        with _DRAWING:
            for bar in _BARS if text else ():
                bar.stop()
            super().write("".join(shown))
            # A line that is not complete yet would be erased with the bar.
            if _BARS and text.endswith("\n"):
                self.flush()
                for bar in _BARS:
                    bar.start()
        return len(text)


class _VisibleOrLost(LosableStream, _Visible):
    """Standard error."""
