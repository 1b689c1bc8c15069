"""Where the records of vpatch's loggers go: standard error and files, without secrets."""

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

from vpatch import __version__
from vpatch.util.os_errors import cannot_write
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The user has seen these records on standard error already.
SHOWN = {"shown": True}

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
# Libraries tell too much of the rest, such as whole answers of GitHub.
_TALKATIVE = ("vpatch", "urllib3")
_LINE = "%(levelname)s %(name)s: %(message)s"
_log = logging.getLogger(__name__)


@dataclass
class RunLog:
    """What one run logs, and where to. Without the options, Python's own defaults stay.

    `echo` prints a line to standard error. `command` is the name of the running command, in words.
    """

    echo: Callable[[str], None]
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
            UsageError, UnavailableError: it cannot be written.
        """
        if path in self.files:
            return
        try:
            handler = _File(path, self.echo)
        except OSError as error:
            raise cannot_write(
                "the log",
                error,
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
            self.terminal = _TerminalHandler(self.echo)
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

    def __init__(self, echo: Callable[[str], None]) -> None:
        super().__init__()
        self.echo = echo

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.echo(self.format(record))
        except Exception:  # noqa: BLE001 - as all handlers of logging do it
            self.handleError(record)


class _File(logging.FileHandler):
    """A file; where it takes no more, the run goes on without a log."""

    def __init__(self, path: Path, echo: Callable[[str], None]) -> None:
        self.failed = False
        self.echo = echo
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
        self.echo(f"note: the log {self.baseFilename} ends here: {error.strerror}")


@contextmanager
def run_log(echo: Callable[[str], None]) -> Iterator[RunLog]:
    """Have a log for the block, and leave the loggers as they were.

    Args:
        echo: prints a line to standard error.
    """
    names = (None, *_TALKATIVE)
    before = {name: logging.getLogger(name).level for name in names}
    log = RunLog(echo)
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
