"""vpatch smoke: proof on a real engine, with and without speculative decoding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.commands.smoke.checks import verdict_of
from vpatch.commands.smoke.output import SmokeOutput
from vpatch.commands.smoke.usecase import SmokeOptions, smoke
from vpatch.console.common_options import EVIDENCE_DIR
from vpatch.console.completion import RECIPE_NAME
from vpatch.console.options import (
    cluster_options,
    engine_option,
    json_option,
    library_options,
    source_options,
    written_in_project,
)
from vpatch.console.output import style
from vpatch.console.renamed_options import renamed_common_option
from vpatch.console.result import CommandResult, InterruptedRunError
from vpatch.errors import ExitCode
from vpatch.evidence.smoke_report import cures_of
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.commands.smoke.checks import Check
    from vpatch.evidence.records import SmokeRecord
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

_COLOURS = {"pass": "green", "fail": "red", "not run": "yellow"}


@click.command("smoke")
@source_options
@library_options
@engine_option
@click.option(
    "--image", metavar="TAG", help="Run in containers of this image, built by vpatch build-image."
)
@click.option(
    "--python",
    metavar="PYTHON",
    help="Run the vLLM of this Python, where vpatch install or a wheel of vpatch's patched it.",
)
@click.option(
    "--plan", type=RECIPE_NAME, metavar="RECIPE", help="Use the smoke plan of another recipe."
)
@click.option("--model", metavar="PATH|ID", help="Run this checkpoint in every cell.")
@click.option("--before", is_flag=True, help="Run the pristine tree first, and compare.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    help="Number of runs of each cell. Speeds are compared only from 3 runs on.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the test server  [default: a free one]"
)
@cluster_options
@click.option("--name", help="Name of the evidence  [default: RECIPE-ENGINE-TIME]")
@renamed_common_option(
    "--evidence-dir",
    old="--to",
    default=written_in_project("evidence", "--evidence-dir"),
    **EVIDENCE_DIR,
)
@json_option
def command(
    request: Request,
    context: Context,
    evidence_dir: Path,
    *,
    as_json: bool,
    **options: Any,
) -> CommandResult | ExitCode:
    """Run a patched vLLM by a smoke plan, for evidence.

    Without a recipe, or with one that has no plan, a standard plan runs: k=0 and k=3, offline and
    as a server. vpatch says so.

    Each cell of the plan starts a real engine with a number of speculative tokens (k), offline or
    as a server. Without a checkpoint of yours, vpatch makes tiny ones. Their tokens and acceptance
    are known in advance. The engine's own files do not change.

    Ends with 1 if a check fails with the patches. What fails only without them is what they fix.
    """
    result = smoke(
        context,
        request,
        SmokeOptions(**options),
        evidence_dir,
        on_result=None if as_json else _print,
    )
    code = ExitCode.CLEAN if result.passed else ExitCode.FINDINGS
    failure = InterruptedRunError("interrupted; what ran is kept") if result.interrupted else None
    if as_json:
        output = SmokeOutput.model_validate(result)
        if failure is not None:
            return CommandResult(output, failure.exit_code, (failure,))
        return CommandResult(output, code)
    _print_end(result.record, result.folder)
    if failure is not None:
        raise failure
    return code


def _print(phase: str, name: str, checks: Sequence[Check]) -> None:
    outcome = verdict_of(checks)
    verdict = style(f"{outcome:<7}", fg=_COLOURS[outcome])
    failing = [c for c in checks if c.verdict == "fail" or (c.claimed and c.verdict != "pass")]
    line = "" if failing else _summary(checks)
    click.echo(f"{phase:<6}  {verdict}  {name:<28}  {line}".rstrip())
    for check in failing:
        reason = check.reason.replace("\n", "\n" + " " * 19)
        click.echo(f"{'':17}{check.name}: {reason or check.figure}")


def _summary(checks: Sequence[Check]) -> str:
    """What one wants to see of a cell that works."""
    shown = {check.name: check.figure for check in checks if check.figure}
    words = [shown[name] for name in ("runs", "acceptance") if name in shown] or [*shown.values()]
    return "; ".join(words) or "; ".join(check.reason for check in checks if check.reason)


def _print_end(record: SmokeRecord, folder: Path) -> None:
    after = [cell for cell in record.cells if cell.phase == "after"]
    passing = sum(cell.verdict == "pass" for cell in after)
    for cure in cures_of(record):
        click.echo(f"{cure.symptom}\n  {cure}")
    click.echo(f"{passing} of {counted(len(after), 'cell')} pass; evidence: {folder}")
