"""vpatch run: a command with the patched vLLM, and without a change to the installed one."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vpatch.commands.run.usecase import patched_run
from vpatch.console.options import json_option, library_options, source_options, strict_option
from vpatch.console.output import style
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult, Successor
from vpatch.errors import ConflictingOptionsError, ExitCode, MissingOptionError
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from vpatch.commands.run.usecase import PatchedRun
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request


@click.command("run", context_settings={"allow_interspersed_args": False})
@source_options
@library_options
@strict_option
@click.option(
    "--python",
    metavar="PYTHON",
    help="The Python whose vLLM is patched, if COMMAND starts another one  "
    "[default: the one behind COMMAND, else python3]",
)
@renamed_option(
    "--dry-run",
    "check",
    old="--check",
    is_flag=True,
    help="Say what would happen, and start nothing.",
)
@click.option(
    "--print-env",
    is_flag=True,
    help="Print the variables for a unit file or a script, and start nothing.",
)
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    request: Request,
    context: Context,
    words: tuple[str, ...],
    python: str | None,
    *,
    strict: bool,
    check: bool,
    print_env: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Run a command with patches, and install nothing.

    No installed file changes. vpatch finds the Python behind COMMAND and the vLLM in its
    environment. Without --vllm and --recipe, it decides on the files that are there. With one of
    the two, it compares each file that a patch touches with the release, and starts nothing if one
    differs. A copy of the package with the patched files comes first on PYTHONPATH, so all
    processes that COMMAND starts have it.

    COMMAND takes the place of vpatch: its input, output, signals and exit code are its own.
    """
    _refuse_options(words, check=check, print_env=print_env, as_json=as_json)
    asked = replace(request, strict=strict)
    run = patched_run(context, asked, words, python, make=not check)
    if print_env and run.kept_overlay is not None:
        run.kept_overlay.keep()
    if not check and not print_env and run.command and run.kept_overlay:
        run.kept_overlay.lock.hand_on()
        program = str(run.command.program)
        return CommandResult(None, then=Successor(program, words, run.environment))
    if run.kept_overlay is not None:
        run.kept_overlay.lock.release()
    if as_json:
        from vpatch.commands.run.output import RunOutput  # noqa: PLC0415 - models load slowly

        return CommandResult(RunOutput.model_validate(run))
    if check:
        _print(run)
    else:
        for name, value in run.variables.items():
            click.echo(f"{name}={shlex.quote(value)}")
    return ExitCode.CLEAN


def _refuse_options(words: tuple[str, ...], *, check: bool, print_env: bool, as_json: bool) -> None:
    if check and print_env:
        raise ConflictingOptionsError(
            "--dry-run and --print-env both start nothing", hint="give one of the two"
        )
    if as_json and not (check or print_env):
        raise ConflictingOptionsError(
            "what COMMAND prints is its own",
            where="--json",
            hint="give --dry-run or --print-env as well",
        )
    if not words and not (check or print_env):
        raise MissingOptionError(
            "there is no command to run",
            hint="write it behind two dashes: vpatch run --vllm 0.23 -- vllm serve MODEL",
        )


def _print(run: PatchedRun) -> None:
    record = run.record
    recipe = f"  recipe {record.recipe}" if record.recipe else ""
    click.echo(f"vllm {record.version}  {record.package}{recipe}")
    for patch, state in record.states:
        click.echo(f"  {style(f'{state:<10}', bold=state == 'needed')}  {patch}")
    click.echo(f"overlay {record.overlay}  {counted(len(run.files), 'file')}")
    for path in run.files:
        click.echo(f"  {path}")
    where = "it is in the cache" if run.is_made else "it would be made"
    click.echo(f"{where}: {run.overlay}")
    click.echo(f"python  {run.python}")
    if run.command is not None:
        click.echo(f"would run: {run.command}")
