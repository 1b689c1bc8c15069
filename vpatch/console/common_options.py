"""Options of most commands. `vpatch --help` alone shows them. Write them before or after a command.

No command is imported to build them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from vpatch.errors import UnusedOptionError
from vpatch.util.log_output import RunLog

_F = TypeVar("_F", bound=Callable[..., Any])
_BEFORE_COMMAND = "vpatch.options_before_command"
_TRUSTED = "vpatch.trusted"
FOLDER = click.Path(path_type=Path)


class CommonOption(click.Option):
    """An option of a command that people may write before the command, too."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "hidden": True})

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        before = ctx.meta.get(_BEFORE_COMMAND, {}).get(self.name)
        if before is not None and self.name is not None:
            after = opts.get(self.name)
            both = [*before, *(after or ())] if self.multiple else after or before
            opts = {**opts, self.name: both}
        return super().handle_parse_result(ctx, opts, args)


class _OptionBeforeCommand(click.Option):
    """The same option before the command, which gets its value."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings = {**settings, "expose_value": False, "callback": _keep}
        super().__init__(*args, **settings)


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        ctx.meta.setdefault(_BEFORE_COMMAND, {})[parameter.name] = value


def _note_trust(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    ctx.meta[_TRUSTED] = value


def is_trusted(ctx: click.Context | None) -> bool:
    """Whether the command line has `--trust`."""
    return ctx is not None and bool(ctx.meta.get(_TRUSTED, False))


OFFLINE: dict[str, Any] = {"is_flag": True, "help": "Use only the cache, and no network."}
LIBRARY: dict[str, Any] = {
    "is_flag": True,
    "help": "Use the library's patches, too, and no recipe.",
}
TRUST: dict[str, Any] = {
    "is_flag": True,
    "expose_value": False,
    "callback": _note_trust,
    "help": "Run this project's code, trusted or not (for CI).",
}
PATCHES_DIR: dict[str, Any] = {
    "type": FOLDER,
    "multiple": True,
    "help": "A further folder with patches; repeatable.",
}
EVIDENCE_DIR: dict[str, Any] = {
    "type": FOLDER,
    "help": "The evidence  [default: evidence in the project]",
}
RECIPES_DIR: dict[str, Any] = {
    "type": FOLDER,
    "multiple": True,
    "help": "A further folder with recipes; repeatable.",
}


def common_option(
    *names: str, cls: type[CommonOption] = CommonOption, **settings: Any
) -> Callable[[_F], _F]:
    """An option that a command takes, and does not show."""
    return click.option(*names, cls=cls, **settings)


library_option = common_option("--library", "with_library", **LIBRARY)
offline_option = common_option("--offline", **OFFLINE)
# Only the session asks for it, so that commands need not hand it on.
trust_option = common_option("--trust", **TRUST)


def check_options_before(ctx: click.Context, command: click.Command) -> None:
    """Refuse an option before a command that does not take it.

    Raises:
        UnusedOptionError: it would have no effect.
    """
    if isinstance(command, click.Group):
        return
    taken = {one.name for one in command.params if isinstance(one, CommonOption)}
    for name in ctx.meta.get(_BEFORE_COMMAND, {}):
        if name not in taken:
            option = next(o.opts[0] for o in ctx.find_root().command.params if o.name == name)
            is_after = any(one.name == name for one in command.params)
            raise UnusedOptionError(
                f"{ctx.command_path} {command.name} does not take {option} before its name"
                if is_after
                else f"{ctx.command_path} {command.name} does not take {option}",
                hint=f"write it after {command.name}" if is_after else f"leave out {option}",
            )


def add_common_options(group: click.Group) -> None:
    """Show the options of most commands at the group of all commands."""
    group.params += [
        _OptionBeforeCommand(["--offline"], **OFFLINE),
        _OptionBeforeCommand(["--trust"], **TRUST),
        _OptionBeforeCommand(["--library", "with_library"], **LIBRARY),
        _OptionBeforeCommand(["--patches-dir", "patches_dirs"], metavar="DIR", **PATCHES_DIR),
        _OptionBeforeCommand(["--recipes-dir", "recipes_dirs"], metavar="DIR", **RECIPES_DIR),
        _OptionBeforeCommand(["--evidence-dir"], metavar="DIR", **EVIDENCE_DIR),
        *_log_options(hidden=False),
    ]


def add_log_options(command: click.Command) -> None:
    """Give a command, and the commands below it, the options: people write them at any place."""
    command.params += _log_options(hidden=True)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_log_options(below)


def _log_options(*, hidden: bool) -> list[click.Parameter]:
    return [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            is_eager=True,
            expose_value=False,
            callback=_note_verbosity,
            hidden=hidden,
            help="Log to standard error; -vv logs everything.",
        ),
        click.Option(
            ["--log-file"],
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_note_file,
            hidden=hidden,
            help="Append the full log to this file, without secrets.",
        ),
    ]


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
