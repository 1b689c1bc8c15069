"""The options `-v`, `-vv` and `--log-file`."""

from __future__ import annotations

from pathlib import Path

import click

from vpatch.util.log_output import RunLog


def is_verbose() -> bool:
    """Whether records go to standard error, where a bar would be in their way."""
    context = click.get_current_context(silent=True)
    log = context.find_object(RunLog) if context else None
    return log is not None and log.verbosity > 0


def _note_verbosity(context: click.Context, _: click.Parameter, count: int) -> None:
    log = context.find_object(RunLog)
    if log is not None and count:
        log.be_verbose(count)


def _note_file(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    log = context.find_object(RunLog)
    if log is not None and path is not None:
        log.write_to(path)


def add_log_options(command: click.Command) -> None:
    """Give a command, and the commands below it, the options: people write them at any place."""
    command.params += [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            is_eager=True,
            expose_value=False,
            callback=_note_verbosity,
            help="Log to standard error; -vv logs everything, with tracebacks of errors.",
        ),
        click.Option(
            ["--log-file"],
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_note_file,
            help="Append the full log to this file, without tokens and passwords.",
        ),
    ]
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_log_options(below)
