"""What click says of a wrong command line, in the form of all other errors."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Behind the message of some; what is near has a line of its own here.
_MEANT = re.compile(r" \(?Did you mean.*$", re.DOTALL)
# What click says of a value that is not one of a list.
_CHOICE = re.compile(r"(?:.*: )?'(.*)' is not one of ", re.DOTALL)
# A release in the place of an argument.
_LONE_RELEASE = re.compile(r"Got unexpected extra argument \((v?\d+\.\d[\w.+]*|latest|all)\)")
# Where to find what an argument can be.
_LISTED = {"PATCH": "vpatch list", "NAME": "vpatch evidence list"}


class UnknownCommandError(UsageError):
    """There is no command of that name."""

    code = "cli.no-such-command"


def unknown_command(group: str, name: str, known: Sequence[str]) -> UnknownCommandError:
    near = get_close_matches(name, known, n=1)
    see = f"{group} --help lists all commands"
    return UnknownCommandError(
        f"there is no command {name!r}",
        hint=f"did you mean {f'{group} {near[0]}'!r}? If not, {see}" if near else see,
    )


def as_ours(error: click.ClickException) -> UsageError:
    """Say what is wrong, and what to write instead."""
    message = _MEANT.sub("", error.format_message()).strip().rstrip(".")
    is_missing = isinstance(error, click.MissingParameter)
    return UsageError(
        message[:1].lower() + message[1:],
        hint="; ".join(_hint(error)),
        code="cli.missing-option" if is_missing else "cli.wrong-usage",
    )


def _hint(error: click.ClickException) -> list[str]:
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return ["see vpatch --help"]
    context = error.ctx
    path = context.command_path
    near = _near(error)
    if near:
        # Some options have an old name, which nobody should learn now.
        renamed = {getattr(one, "old", None): one.opts[0] for one in context.command.params}
        return [f"did you mean {renamed.get(near[0], near[0])!r}? If not, see {path} --help"]
    parameter = getattr(error, "param", None)
    usage = " ".join(context.get_usage().partition(": ")[2].split())
    hints = [f"write {usage}", f"see {path} --help"]
    release = _LONE_RELEASE.fullmatch(error.message)
    if release is not None and any("--vllm" in one.opts for one in context.command.params):
        return [f"did you mean --vllm {release[1]}? If not, {hints[1]}"]
    if isinstance(error, click.MissingParameter) and parameter is not None:
        listed = _LISTED.get(parameter.make_metavar(context))
        hints[1:1] = [f"{listed} shows what there is"] if listed else []
        if isinstance(parameter, click.Option):
            hints[0] = f"add {parameter.opts[0]} {parameter.make_metavar(context)}"
    elif isinstance(getattr(parameter, "type", None), click.Path):
        hints[0] = "correct the path"
    return hints


def _near(error: click.UsageError) -> Sequence[str]:
    """The options, or the values of a list, that are like what was written."""
    kind = getattr(getattr(error, "param", None), "type", None)
    wrong = _CHOICE.match(error.message)
    if wrong is not None and isinstance(kind, click.Choice):
        return get_close_matches(wrong[1], kind.choices, n=1)
    return getattr(error, "possibilities", None) or ()
