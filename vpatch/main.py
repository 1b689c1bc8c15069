"""The command line: it finds a command, runs it, and ends the process with its exit code."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vpatch import __version__
from vpatch.console.common_options import add_common_options, add_log_options
from vpatch.console.output import Group, made_visible, remove_bars, style
from vpatch.console.result import (
    CommandResult,
    InterruptedRunError,
    VpatchFaultError,
    print_document,
)
from vpatch.console.usage import as_ours
from vpatch.errors import ExitCode, ManyErrors, VpatchError, by_cause
from vpatch.registry import COMMANDS
from vpatch.util.garbage import collect_rarely
from vpatch.util.log_output import SHOWN, RunLog, run_log
from vpatch.util.os_errors import path_or_machine_error
from vpatch.util.own_environment import set_own
from vpatch.util.recursion import allow_deep_syntax

if TYPE_CHECKING:
    from types import FrameType

    from click.shell_completion import CompletionItem

    from vpatch.console.result import Successor

# Seconds in which a run that is interrupted clears up, whatever else is pressed.
_PATIENCE = 5.0
_log = logging.getLogger(__name__)


class _Interrupt:
    """Interrupts the run. What comes soon after does not cut off how it clears up."""

    def __init__(self) -> None:
        self._since = -_PATIENCE

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if time.monotonic() - self._since >= _PATIENCE:
            self._since = time.monotonic()
            raise KeyboardInterrupt


class _ReaderGoneError(Exception):
    """Whoever read our output has what it wanted."""


class _Commands(Group):
    """Imports a command when it is called: they need very different parts of vpatch."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        rows, group = [], ""
        for name, one in COMMANDS.items():
            rows.append((one.group if one.group != group else "", f"{name:<{width}}  {one.help}"))
            group = one.group
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click would import every command whose name fits, at each press of the tab key.
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        named = [
            CompletionItem(name, help=one.help)
            for name, one in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # click would make 1 of it, which means findings here.
            raise _ReaderGoneError from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return _command(cmd_name) if cmd_name in COMMANDS else None


@cache
def _command(name: str) -> click.Command:
    entry = COMMANDS[name]
    if entry.extra:
        from vpatch.util.extras import require  # noqa: PLC0415 - `vpatch --help` needs none

        require(entry.extra, f"`vpatch {name}`")
    command: click.Command = entry.imported()
    add_log_options(command)
    return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Maintain declared patches on top of upstream vLLM.

    Exit codes: 0 clean, 1 findings, 2 wrong usage, 3 a fault of vpatch, 4 the environment, 130
    interrupted. Options go before or after a command.
    """


add_common_options(cli)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    # What comes behind -- are words of another command.
    own = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    wants_json = any(word.partition("=")[0] == "--json" for word in own)
    interrupt = _Interrupt()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP so that a run outlives the terminal: it must stay ignored.
        if signal.getsignal(ending) is not signal.SIG_IGN:
            # Engines are ended, and what is half made is removed.
            signal.signal(ending, interrupt)
    collect_rarely()
    allow_deep_syntax()
    set_own()
    with made_visible(), run_log(partial(click.echo, err=True)) as log:
        answer = _run_cli(log)
        code = answer.code
        if wants_json and (answer.result is not None or answer.errors):
            code = _print_document(log, answer)
        _log.info("ended with %d after %.2f s", code, time.monotonic() - log.begun)
    if answer.then is not None:
        code = _become(answer.then)
    sys.exit(int(code))


def _open_closed_streams() -> None:
    """Put the null device where the shell closed a stream, as in `vpatch ... >&-`.

    Otherwise the next file that is opened would get its number, and what others print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 - of a descriptor


def _become(successor: Successor) -> int:
    """Become another program; return only where that fails."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # the shell may have closed it: vpatch ... >&-
            stream.flush()
    try:
        successor.start()
    except VpatchError as error:
        return _fail(error).code


def _run_cli(log: RunLog) -> CommandResult:
    """Run the command line, say how it failed if it did, and return how it ended."""
    try:
        try:
            returned = cli.main(prog_name="vpatch", standalone_mode=False, obj=log)
        finally:
            remove_bars()
        answer = (
            returned if isinstance(returned, CommandResult) else CommandResult(None, returned or 0)
        )
        for one in by_cause(answer.errors):
            _show(one)
    except (click.exceptions.Abort, KeyboardInterrupt):
        answer = _fail_interrupted()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help itself
        answer = CommandResult(None, ExitCode.USAGE)
    except click.ClickException as error:
        answer = _fail(as_ours(error))
    except VpatchError as error:
        answer = _fail(error)
    except _ReaderGoneError:
        _print_no_more()
        answer = CommandResult(None)
    except OSError as error:
        failure = path_or_machine_error(error)
        answer = _fail(failure) if failure else _fault(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: whatever it is, it is ours
        # Python makes a RuntimeError of an interrupt while it makes a class.
        stopped = isinstance(error.__cause__, KeyboardInterrupt)
        answer = _fail_interrupted() if stopped else _fault(error)
    return answer


def _fail_interrupted() -> CommandResult:
    return _fail(InterruptedRunError("interrupted; nothing was left half done"))


def _fail(error: VpatchError) -> CommandResult:
    errors = tuple(error.errors) if isinstance(error, ManyErrors) else (error,)
    for one in by_cause(errors):
        _show(one)
    return CommandResult(None, error.exit_code, errors)


def _show(error: VpatchError) -> None:
    if isinstance(error, InterruptedRunError):
        click.echo(error.what, err=True)
        return
    _log.debug("the cause of the next error", exc_info=error)
    _log.error("%s", error, extra=SHOWN)
    click.echo(f"{style('error:', fg='red', bold=True)} {error}", err=True)


def _fault(error: Exception) -> CommandResult:
    # Whoever reports a fault copies these lines to a public place.
    from vpatch.util.run_log import hide_environment, redacted  # noqa: PLC0415

    _log.exception("a fault of vpatch", extra=SHOWN)
    hide_environment()
    click.echo(redacted(traceback.format_exc()), err=True, nl=False)
    click.echo("this is a fault of vpatch; please report it with the lines above", err=True)
    what = redacted(f"this is a fault of vpatch: {type(error).__name__}: {error}")
    fault = VpatchFaultError(what, hint="please report it with what is on standard error")
    return CommandResult(None, fault.exit_code, (fault,))


def _print_document(log: RunLog, answer: CommandResult) -> int:
    """Print the one document of `--json`, and return the exit code."""
    try:
        print_document(" ".join(log.command), answer)
    except BrokenPipeError:
        _print_no_more()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:  # the disk that it is redirected to may be full
        _print_no_more()
        failure = path_or_machine_error(error)
        return _fail(failure).code if failure else _fault(error).code
    return answer.code


def _print_no_more() -> None:
    # Python would complain when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
