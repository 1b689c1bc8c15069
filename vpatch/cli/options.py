"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from vpatch.app.context import Context, below_project, refuse_link
from vpatch.app.selection import Request
from vpatch.cli.progress import progress_for_terminal
from vpatch.library.project import find_project

_F = TypeVar("_F", bound=Callable[..., Any])


def in_project(name: str) -> Callable[[], Path]:
    """The default of an option: a folder of that name in the project's."""
    return lambda: below_project(find_project(Path.cwd()), name)


def written_in_project(name: str) -> Callable[[], Path]:
    """As `in_project`, for a folder that is written to."""
    return lambda: refuse_link(below_project(find_project(Path.cwd()), name))


offline_option = click.option("--offline", is_flag=True, help="Use the cache alone.")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


engine_option = click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="A vLLM that is made and cached, or one of yours  [default: cuda where there is a GPU]",
)


_TRUSTED = "vpatch.trusted"


def _note_trust(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    context.meta[_TRUSTED] = value


# Only the session asks for it, so that commands need not hand it on.
trust_option = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_note_trust,
    help="Run code of this project without asking whether it is trusted: for CI.",
)


def library_options(command: _F) -> _F:
    """Options that say where patches and recipes lie, and whether their code may run."""
    folder = click.Path(path_type=Path)
    for option in (
        trust_option,
        click.option("--recipes", multiple=True, type=folder, help="A folder of recipes."),
        click.option("--patches", multiple=True, type=folder, help="A folder of patches."),
    ):
        command = option(command)
    return command


def source_options(command: _F) -> _F:
    """Options that say which trees are meant."""
    for option in (
        offline_option,
        click.option(
            "--patch", "only", multiple=True, metavar="ID", help="Take this patch only; repeatable."
        ),
        click.option(
            "--tree",
            "trees",
            multiple=True,
            metavar="NAME==VERSION",
            help="A further tree, also NAME=PATH or NAME=URL@REF; repeatable.",
        ),
        click.option("--recipe", metavar="NAME", help="A recipe, by name or file."),
        click.option(
            "--vllm",
            metavar="VERSION",
            help="A release (0.23, 0.23.0, latest), a folder, or URL@REF or PATH@REF.",
        ),
    ):
        command = option(command)
    return command


def request_from(
    vllm: str | None, recipe: str | None, trees: tuple[str, ...], only: tuple[str, ...]
) -> Request:
    return Request(vllm, recipe, trees, only)


def open_context(
    patches: tuple[Path, ...] = (),
    recipes: tuple[Path, ...] = (),
    offline: bool = False,  # noqa: FBT001, FBT002
) -> Context:
    """Open the context of a command: with its options, and with progress for the terminal."""
    found = click.get_current_context(silent=True)
    everything = found is not None and found.meta.get(_TRUSTED, False)
    context = Context(patches, recipes, offline, everything, progress_for_terminal())
    if found is not None:
        found.call_on_close(context.close)
    return context
