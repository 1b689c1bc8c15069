"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from vpatch.console.progress import progress_for_terminal
from vpatch.errors import ConflictingOptionsError
from vpatch.library.project import find_project
from vpatch.workspace.context import Context, below_project, refuse_link
from vpatch.workspace.selection import Request

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")
FOLDER = click.Path(path_type=Path)


class RenamedOption(click.Option):
    """An option that is still found under its old name. `--help` shows only the new one."""

    def __init__(self, *args: Any, old: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        action = "append" if self.multiple else "store"
        parser.add_option(self, [self.old], self.old, action, self.nargs)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if self.old in opts and self.name is not None:
            new, value = self.opts[0], opts[self.old]
            if self.multiple:
                value = [*value, *opts.get(self.name, ())]
            elif self.name in opts and not ctx.resilient_parsing:
                raise ConflictingOptionsError(
                    f"{self.old} is the old name of {new}", hint=f"give {new} alone"
                )
            opts = {**opts, self.name: value}
            if not ctx.resilient_parsing:  # the shell completes a command line
                progress_for_terminal().note(
                    f"{self.old} is now {new}; the old name goes with the next release"
                )
        return super().handle_parse_result(ctx, opts, args)


def in_project(name: str) -> Callable[[], Path]:
    """The default of an option: a folder of that name in the project's."""
    return lambda: below_project(find_project(Path.cwd()), name)


def written_in_project(name: str, option: str) -> Callable[[], Path]:
    """As `in_project`, for a folder that is written to."""
    return lambda: refuse_link(below_project(find_project(Path.cwd()), name), option)


offline_option = click.option("--offline", is_flag=True, help="Use only the cache, and no network.")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


engine_option = click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="The vLLM to run: a cached cpu or cuda build, or the Python of your own vLLM  "
    "[default: cuda on a machine with a GPU, else cpu]",
)


strict_option = click.option(
    "--strict",
    is_flag=True,
    help="Stop at new shapes: code that is not that of a release on record.",
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
    help="Run this project's code even if you have not trusted it (for CI).",
)


def folder_option(*names: str, old: str, **settings: Any) -> Callable[[_F], _F]:
    """An option that takes a folder, and had another name in the last release."""
    return click.option(*names, cls=RenamedOption, old=old, type=FOLDER, **settings)


checkout_option = folder_option(
    "--checkout",
    old="--to",
    help="Folder of the checkout  [default: .vpatch/TREE-VERSION in the project]",
)


evidence_dir_option = folder_option(
    "--evidence-dir",
    old="--from",
    default=in_project("evidence"),
    help="Folder with the evidence  [default: evidence in the project]",
)


def cluster_options(command: _F) -> _F:
    """Options of commands whose cells may run on a Ray cluster."""
    for option in (
        click.option("--resume", is_flag=True, help="With --on, keep the cells that ran before."),
        click.option(
            "--storage",
            metavar="URL",
            help="With --on, where nodes leave large files: a shared folder, or s3://BUCKET/PATH.",
        ),
        click.option(
            "--attempts",
            type=click.IntRange(1),
            default=3,
            show_default=True,
            help="With --on, how often a cell is tried when nodes are lost.",
        ),
        click.option(
            "--on",
            metavar="ADDRESS",
            help="Run the cells on a Ray cluster: ray://HOST, HOST:PORT, auto, or local.",
        ),
    ):
        command = option(command)
    return command


def library_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Options that say where patches and recipes lie, and whether their code may run.

    The command gets a `context`. It has `--offline` too if the command has that option.
    """

    @wraps(command)
    def with_context(
        *args: Any,
        patches_dirs: tuple[Path, ...],
        recipes_dirs: tuple[Path, ...],
        offline: bool = False,
        **others: Any,
    ) -> _R:
        context = open_context(patches_dirs, recipes_dirs, offline=offline)
        return command(*args, context=context, **others)

    for option in (
        trust_option,
        folder_option(
            "--recipes-dir",
            "recipes_dirs",
            old="--recipes",
            multiple=True,
            help="A further folder with recipes; repeatable.",
        ),
        folder_option(
            "--patches-dir",
            "patches_dirs",
            old="--patches",
            multiple=True,
            help="A further folder with patches; repeatable.",
        ),
    ):
        option(with_context)
    return with_context


def source_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Options that say which trees are meant. The command gets them as a `request`."""

    @wraps(command)
    def with_request(
        *args: Any,
        vllm: str | None,
        recipe: str | None,
        trees: tuple[str, ...],
        only: tuple[str, ...],
        security: str | None,
        **others: Any,
    ) -> _R:
        request = Request(vllm, recipe, trees, only, security=security)
        return command(*args, request=request, **others)

    for option in (
        offline_option,
        click.option(
            "--security",
            type=click.Choice(["all"]),
            help="Use the backports of security fixes as well.",
        ),
        click.option(
            "--patch", "only", multiple=True, metavar="ID", help="Use only this patch; repeatable."
        ),
        click.option(
            "--tree",
            "trees",
            multiple=True,
            metavar="NAME==VERSION",
            help="Another tree: NAME==VERSION, NAME=PATH or NAME=URL@REF; repeatable.",
        ),
        click.option("--recipe", metavar="NAME", help="Use this recipe: a name or a file."),
        click.option(
            "--vllm",
            metavar="VERSION",
            help="The vLLM to use: a release (0.23, 0.23.0, latest), a folder, URL@REF or "
            "PATH@REF.",
        ),
    ):
        option(with_request)
    return with_request


def open_context(
    patches_dirs: tuple[Path, ...] = (),
    recipes_dirs: tuple[Path, ...] = (),
    *,
    offline: bool = False,
) -> Context:
    """Open the context of a command: with its options, and with progress for the terminal."""
    command = click.get_current_context(silent=True)
    everything = command is not None and command.meta.get(_TRUSTED, False)
    context = Context(patches_dirs, recipes_dirs, offline, everything, progress_for_terminal())
    if command is not None:
        command.call_on_close(context.close)
    return context
