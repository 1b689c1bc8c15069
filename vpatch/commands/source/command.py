"""vpatch source: a plain tree to edit."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from vpatch.commands.source.usecase import check_out_source
from vpatch.console import render
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RELEASE
from vpatch.console.options import json_option, open_context
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.wrapping import line_width, wrapped
from vpatch.workspace.context import below_project
from vpatch.workspace.selection import one_tree


@click.command("source")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--vllm",
    type=RELEASE,
    metavar="VERSION",
    help="The vLLM to use: a release (0.23, 0.23.0, latest), a folder, URL@REF or PATH@REF.",
)
@click.option(
    "--tree",
    metavar="NAME==VERSION",
    help="Another tree than vLLM: NAME==VERSION, NAME=PATH or NAME=URL@REF.",
)
@offline_option
@json_option
def command(
    folder: Path, vllm: str | None, tree: str | None, *, offline: bool, as_json: bool
) -> CommandResult | ExitCode:
    """Write the plain source of a vLLM, to edit.

    DIR becomes a git checkout. No patch is applied. The branch `base` has the source as it was
    published, and the branch `vpatch` is yours. Edit files, commit them or not, and run
    `vpatch import DIR`: it knows which release you changed.

    DIR must be new or empty. vpatch source overwrites nothing.
    """
    context = open_context(offline=offline)
    spec = one_tree(vllm, tree, below_project(context.project, ""), "source")
    checkout = check_out_source(context, spec, folder)
    if as_json:
        from vpatch.commands.source.output import SourceOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(SourceOutput.model_validate(checkout))
    render.print_pin(checkout.pin)
    shown = shlex.quote(str(folder))
    if checkout.outcome == "unchanged":
        text = f"{folder} already is exactly this; nothing was written"
    else:
        text = f"{folder}  the plain tree, as commit {checkout.base[:12]}"
    for line in (text, f"next: edit files in {shown}, then run vpatch import {shown}"):
        for part in wrapped(line, line_width()):
            click.echo(part)
    return ExitCode.CLEAN
