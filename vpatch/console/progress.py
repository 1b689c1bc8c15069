"""Progress on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from vpatch.console.common_options import is_verbose
from vpatch.console.output import remove_bar, show_bar, style
from vpatch.progress import Silent
from vpatch.util.logged_progress import LoggedProgress
from vpatch.util.plural import counted
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from vpatch.progress import Progress, Task


def progress_for_terminal() -> Progress:
    # rich cannot erase a bar on the terminals that it calls dumb.
    is_dumb = os.environ.get("TERM", "").lower() in {"dumb", "unknown"}
    has_bars = sys.stderr.isatty() and not is_dumb and not is_verbose()
    return LoggedProgress(_Terminal() if has_bars else _Lines())


class _Lines:
    """One line when a task begins: what a log file needs."""

    def start(self, what: str, *, total: int | None = None, unit: str = "bytes") -> Task:
        amount = f"{total / 1e6:.1f} MB" if total and unit == "bytes" else counted(total or 0, unit)
        size = f" ({amount})" if total else ""
        click.echo(f"{what}{size}", err=True)
        return Silent()

    def note(self, message: str) -> None:
        click.echo(f"note: {message}", err=True)


class _Terminal:
    """A bar while a task runs; nothing stays behind on the screen but notes."""

    def start(self, what: str, *, total: int | None = None, unit: str = "bytes") -> Task:
        # rich costs 30 ms, which a warm run that shows no bar need not pay.
        from rich import progress as bars  # noqa: PLC0415
        from rich.console import Console  # noqa: PLC0415

        columns = [
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}", markup=False),
            bars.TimeElapsedColumn(),
        ]
        bar = bars.Progress(
            *columns,
            console=Console(file=sys.__stderr__),
            transient=True,
            # In place of standard output, rich would print what `_Visible` must see first.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        show_bar(bar)
        task = _Bar(bar, bar.add_task(visible(what), total=None), unit, what)
        if total is not None:
            task.resize(total)
        return task

    def note(self, message: str) -> None:
        click.echo(f"{style('note:', fg='yellow')} {message}", err=True)


class _Bar:
    def __init__(self, bar: RichProgress, task: TaskID, unit: str, what: str) -> None:
        self.what = what
        self.bar = bar
        self.task = task
        self.unit = unit

    def resize(self, total: int) -> None:
        from rich import progress as bars  # noqa: PLC0415 - as above

        if self.bar.tasks[0].total is None:
            count = bars.DownloadColumn() if self.unit == "bytes" else bars.MofNCompleteColumn()
            self.bar.columns = (*self.bar.columns, bars.BarColumn(), count)
        self.bar.update(self.task, total=total)

    def advance(self, amount: int) -> None:
        self.bar.update(self.task, advance=amount)

    def describe(self, item: str) -> None:
        self.bar.update(self.task, description=visible(f"{self.what}: {item}"))

    def done(self) -> None:
        remove_bar(self.bar)
