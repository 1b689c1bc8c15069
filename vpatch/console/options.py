"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from vpatch.console.common_options import (
    EVIDENCE_DIR,
    FOLDER,
    PATCHES_DIR,
    RECIPES_DIR,
    is_trusted,
    library_option,
    offline_option,
    trust_option,
)
from vpatch.console.completion import PATCH_ID, RECIPE_NAME, RELEASES
from vpatch.console.progress import progress_for_terminal
from vpatch.console.renamed_options import RenamedOption, renamed_common_option, renamed_option
from vpatch.library.project import find_project
from vpatch.workspace.context import Context, below_project, refuse_link
from vpatch.workspace.selection import Request

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")


def in_project(name: str) -> Callable[[], Path]:
    """The default of an option: a folder of that name in the project's."""
    return lambda: below_project(find_project(Path.cwd()), name)


def written_in_project(name: str, option: str) -> Callable[[], Path]:
    """As `in_project`, for a folder that is written to."""
    return lambda: refuse_link(below_project(find_project(Path.cwd()), name), option)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


author_option = click.option(
    "--author",
    metavar="NAME",
    help="Who answers for the documents for scanners: NAME or 'NAME <ADDRESS>'.",
)


engine_option = click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="The vLLM to run: a cached cpu or cuda build, or the Python of your own vLLM  "
    "[default: cuda on a machine with a GPU, else cpu]",
)


ALL_RELEASES = "all"
every_release_option = click.option(
    "--all", "every", is_flag=True, hidden=True, help=f"Short for --vllm {ALL_RELEASES}."
)


strict_option = click.option(
    "--strict",
    is_flag=True,
    help="Stop where a state is not sure: at a new shape, or at changed code around a known one.",
)


def folder_option(*names: str, old: str, **settings: Any) -> Callable[[_F], _F]:
    """An option that takes a folder, and had another name in the last release."""
    return click.option(*names, cls=RenamedOption, old=old, type=FOLDER, **settings)


checkout_option = folder_option(
    "--checkout",
    old="--to",
    help="Folder of the checkout  [default: .vpatch/TREE-VERSION in the project]",
)


evidence_dir_option = renamed_common_option(
    "--evidence-dir", old="--from", default=in_project("evidence"), **EVIDENCE_DIR
)


def cluster_options(command: _F) -> _F:
    """Options of commands whose cells may run on a Ray cluster."""
    for option in (
        click.option(
            "--resume", is_flag=True, help="With --cluster, keep the cells that ran before."
        ),
        click.option(
            "--storage",
            metavar="URL",
            help="With --cluster, where nodes leave large files: a shared folder, or s3://BUCKET/PATH.",
        ),
        click.option(
            "--attempts",
            type=click.IntRange(1),
            default=3,
            show_default=True,
            help="With --cluster, how often a cell is tried when nodes are lost.",
        ),
        renamed_option(
            "--cluster",
            "on",
            old="--on",
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
        renamed_common_option("--recipes-dir", "recipes_dirs", old="--recipes", **RECIPES_DIR),
        renamed_common_option("--patches-dir", "patches_dirs", old="--patches", **PATCHES_DIR),
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
        with_library: bool,
        **others: Any,
    ) -> _R:
        request = Request(vllm, recipe, trees, only, security=security, library=with_library)
        return command(*args, request=request, **others)

    for option in (
        offline_option,
        click.option(
            "--security",
            type=click.Choice(["all"]),
            help="Use the backports of security fixes as well.",
        ),
        library_option,
        click.option(
            "--patch",
            "only",
            type=PATCH_ID,
            multiple=True,
            metavar="ID",
            help="Use only this patch; repeatable.",
        ),
        click.option(
            "--tree",
            "trees",
            multiple=True,
            metavar="NAME==VERSION",
            help="Another tree: NAME==VERSION, NAME=PATH or NAME=URL@REF; repeatable.",
        ),
        click.option(
            "--recipe", type=RECIPE_NAME, metavar="NAME", help="Use this recipe: a name or a file."
        ),
        click.option(
            "--vllm",
            type=RELEASES,
            metavar="VERSION",
            help="The vLLM to use: a release (0.23, 0.23.0, latest), a folder, URL@REF, "
            "PATH@REF, a wheel, env:PYTHON or image:NAME.",
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
    context = Context(
        patches_dirs, recipes_dirs, offline, is_trusted(command), progress_for_terminal()
    )
    if command is not None:
        command.call_on_close(context.close)
    return context
