"""vpatch check: the drift gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.apply.check import check
from vpatch.commands.apply.output import CheckOutput
from vpatch.console.common_options import offline_option
from vpatch.console.completion import RELEASE
from vpatch.console.options import (
    folder_option,
    json_option,
    library_options,
    strict_option,
)
from vpatch.console.result import CommandResult
from vpatch.errors import ConflictingOptionsError, ExitCode
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


@click.command("check")
@click.option("--vllm", type=RELEASE, metavar="VERSION", help="Use the checkout of this version.")
@folder_option("--checkout", old="--to", help="Folder of the checkout.")
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(path_type=Path),
    help="Use this lock file. Without --checkout, only the patches are compared with it.",
)
@strict_option
@offline_option
@library_options
@json_option
def command(
    vllm: str | None,
    checkout: Path | None,
    lock_file: Path | None,
    context: Context,
    *,
    strict: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Compare every byte of a checkout with its patches.

    vpatch applies the patches again, in memory. Compares the result with the lock and with the
    checkout. Ends with 1 and lists what differs: a recipe with another pin or other patches, an
    edited or new patch, another source, or a changed file in the checkout.
    """
    if lock_file is not None and vllm is not None:
        raise ConflictingOptionsError(
            "--lock and --vllm both name a lock", hint="give one of the two"
        )
    result = check(context, vllm, checkout, lock_file, strict=strict)
    code = ExitCode.FINDINGS if result.differences else ExitCode.CLEAN
    if as_json:
        return CommandResult(CheckOutput.model_validate(result), code)
    if result.differences:
        click.echo(f"{result.path}: {counted(len(result.differences), 'difference')}")
        for line in result.differences:
            click.echo(f"  {line}")
        click.echo(f"  next: {result.hint}")
    else:
        count = counted(len(result.lock.patches), "patch")
        files = counted(len(result.lock.files), "file")
        click.echo(f"{result.path}: {count} and {files} are exactly as locked")
        for line in result.new_shapes:
            click.echo(f"  {line}")
    return code
