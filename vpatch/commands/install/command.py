"""vpatch install: the patched files in an environment."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vpatch.commands.install.usecase import install
from vpatch.console.options import json_option, library_options, source_options, strict_option
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

_DONE = {
    "installed": "now in it",
    "replaced": "now in it, and those of the earlier install are not",
    "unchanged": "in it already; nothing was written",
}


@click.command("install")
@source_options
@library_options
@click.option(
    "--python",
    metavar="PYTHON",
    default=sys.executable,
    help="Whose vLLM to patch  [default: the Python that runs vpatch]",
)
@strict_option
@json_option
def command(
    request: Request, context: Context, *, python: str, strict: bool, as_json: bool
) -> CommandResult | ExitCode:
    """Patch the vLLM of a Python environment.

    Without --vllm and --recipe, vpatch decides on the files that are there, whoever built them.
    With one of the two, every file that is replaced must be that of the release. RECORD and the
    lock beside it say what was done, and the files from before are kept there. A second install
    replaces the first one. `vpatch uninstall` restores every byte.

    Do not run it while that vLLM runs: a process could import old and new files.
    """
    done = install(context, replace(request, strict=strict), python)
    if as_json:
        from vpatch.commands.install.output import InstallOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(InstallOutput.model_validate(done))
    patches = counted(len(done.lock.patches), "patch")
    click.echo(f"{done.found}")
    outcome = _DONE[done.outcome or "unchanged"]
    click.echo(f"  {patches} with {counted(len(done.files), 'file')}: {outcome}")
    return ExitCode.CLEAN
