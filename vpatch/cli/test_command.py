"""vpatch test: a patch's examples, each applied twice, or its behaviour inside a real vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.app.examples import run_examples
from vpatch.cli import behaviour
from vpatch.cli.options import (
    folder_option,
    json_option,
    library_options,
    offline_option,
)
from vpatch.cli.output import style
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode, UsageError
from vpatch.output.library import TestOutput
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.library.patch import Patch


@click.command("test")
@click.argument("ids", nargs=-1, metavar="[PATCH]...")
@click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="Run behaviour tests in a cached cpu or cuda build, or in the Python of your own vLLM.",
)
@click.option(
    "--vllm",
    metavar="VERSION",
    help="Release to test in  [default: the one that the test declares]",
)
@folder_option(
    "--evidence-dir",
    old="--to",
    help="Write evidence of each behaviour test to this folder.",
)
@offline_option
@library_options
@json_option
def command(
    ids: tuple[str, ...],
    engine: str | None,
    vllm: str | None,
    context: Context,
    evidence_dir: Path | None,
    *,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Run the examples of all patches, or of the named ones.

    Each example runs twice, and the second run must change nothing.

    With --engine, run the behaviour tests instead, in a real vLLM. Each test must fail as declared
    on the pristine tree, and pass on the patched tree.
    """
    chosen = context.library.load(ids or sorted(context.library.patches))
    if engine is not None:
        return behaviour.run(
            context, chosen, engine, vllm, evidence_dir, named=bool(ids), as_json=as_json
        )
    for option, value in (("--vllm", vllm), ("--evidence-dir", evidence_dir)):
        if value is not None:
            raise UsageError(
                f"{option} would have no effect without --engine",
                hint="give --engine cpu as well, to run behaviour tests",
                code="cli.unused-option",
            )
    return _examples(chosen, as_json=as_json)


def _examples(chosen: list[Patch], *, as_json: bool) -> CommandResult | ExitCode:
    results = [(patch.id, result) for patch in chosen for result in run_examples(patch)]
    failed = [result for _, result in results if result.failures]
    code = ExitCode.FINDINGS if failed else ExitCode.CLEAN
    if as_json:
        return CommandResult(TestOutput.of_examples(results), code)
    for patch_id, result in results:
        verdict = style("fails", fg="red") if result.failures else "holds"
        click.echo(f"{verdict}  {patch_id}  {result.name}")
        for failure in result.failures:
            click.echo("       " + failure.replace("\n", "\n       "))
    click.echo(f"{len(results) - len(failed)} of {counted(len(results), 'example')} hold")
    return code
