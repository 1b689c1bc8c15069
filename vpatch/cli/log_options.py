"""`-v`, `-vv` and `--log-file`. Nothing else says where the records of vpatch's loggers go."""

from __future__ import annotations

import logging
import platform
import shlex
import stat
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch import __version__
from vpatch.errors import UsageError
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

# The user has seen these records on standard error already.
SHOWN = {"shown": True}

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
# Libraries tell too much of the rest: whole answers of GitHub, each font of matplotlib.
_TALKATIVE = ("vpatch", "urllib3")
_LINE = "%(levelname)s %(name)s: %(message)s"
_log = logging.getLogger(__name__)


@dataclass
class RunLog:
    """What one run logs, and where to. Without the options, Python's own defaults stay.

    `command` is the name of the command that runs, in words.
    """

    begun: float = field(default_factory=time.monotonic)
    terminal: logging.Handler | None = None
    files: dict[Path, logging.Handler] = field(default_factory=dict)
    verbosity: int = 0
    command: list[str] = field(default_factory=list)

    def be_verbose(self, count: int) -> None:
        is_first = not self.verbosity
        self.verbosity += count
        terminal = self._to_terminal()
        self._set_levels()
        if is_first:
            self._introduce(terminal)

    def write_to(self, path: Path) -> None:
        """Append all records to a file, which only the user may read where it is new.

        Raises:
            UsageError: it cannot be written.
        """
        if path in self.files:
            return
        try:
            handler = _File(path)
        except OSError as error:
            raise UsageError(
                f"the log cannot be written: {error.strerror}",
                where=str(path),
                hint="name another file with --log-file",
            ) from error
        self.files[path] = handler
        # Once the root logger has a handler, Python no longer prints warnings by itself.
        self._to_terminal()
        self._add(handler, f"%(asctime)s [%(process)d] {_LINE}")
        self._set_levels()
        self._introduce(handler)

    def _to_terminal(self) -> logging.Handler:
        if self.terminal is None:
            self.terminal = _TerminalHandler()
            self.terminal.addFilter(lambda record: not getattr(record, "shown", False))
            self._add(self.terminal, _LINE)
        return self.terminal

    def _add(self, handler: logging.Handler, form: str) -> None:
        # Only a run that logs pays for this.
        from vpatch.util.run_log import hide_environment  # noqa: PLC0415

        hide_environment()
        handler.setFormatter(_Redacting(form))
        logging.getLogger().addHandler(handler)

    def _set_levels(self) -> None:
        level = _LEVELS[min(self.verbosity, len(_LEVELS) - 1)]
        if self.terminal is not None:
            self.terminal.setLevel(level)
        lowest = logging.DEBUG if self.files else level
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(lowest)
        logging.getLogger().setLevel(max(lowest, logging.INFO))

    def _introduce(self, handler: logging.Handler) -> None:
        from vpatch.util.run_log import command_line  # noqa: PLC0415

        record = _log.makeRecord(
            _log.name,
            logging.INFO,
            __file__,
            0,
            "vpatch %s, Python %s, %s, in %s: %s",
            (
                __version__,
                platform.python_version(),
                platform.platform(),
                shlex.quote(str(Path.cwd())),
                command_line(["vpatch", *sys.argv[1:]]),
            ),
            None,
        )
        handler.handle(record)


class _Redacting(logging.Formatter):
    """No record leaves with a secret in it, be it in a message or a traceback, and whose it is."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        from vpatch.util.run_log import redacted  # noqa: PLC0415

        return visible(redacted(super().format(record)))


class _TerminalHandler(logging.Handler):
    """Standard error, as it is when a record comes."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            click.echo(self.format(record), err=True)
        except Exception:  # noqa: BLE001 - as all handlers of logging do it
            self.handleError(record)


class _File(logging.FileHandler):
    """A file; where it takes no more, the run goes on without a log."""

    def __init__(self, path: Path) -> None:
        self.failed = False
        super().__init__(path, encoding="utf-8", errors="backslashreplace", delay=True)
        if not path.exists():
            path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
        self.stream = self._open()

    def emit(self, record: logging.LogRecord) -> None:
        if not self.failed:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self.failed = True
        click.echo(f"note: the log {self.baseFilename} ends here: {error.strerror}", err=True)


@contextmanager
def run_log() -> Iterator[RunLog]:
    """Have a log for the block, and leave the loggers as they were."""
    names = (None, *_TALKATIVE)
    before = {name: logging.getLogger(name).level for name in names}
    log = RunLog()
    try:
        yield log
    finally:
        for handler in (log.terminal, *log.files.values()):
            if handler is not None:
                logging.getLogger().removeHandler(handler)
                with suppress(OSError):  # the file takes no more, and the user was told
                    handler.close()
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


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
