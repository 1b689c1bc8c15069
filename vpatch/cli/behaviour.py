"""The part of `vpatch test` that runs behaviour tests in an engine."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import click

from vpatch.app.proofs import run_proofs
from vpatch.cli.output import style
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.output.library import BehaviourTestOutput, IdleTestOutput, ReleaseTestOutput, TestOutput
from vpatch.util.extras import require
from vpatch.util.plural import holding

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.app.proofs import ProvenTest
    from vpatch.app.release_proofs import ReleaseTest
    from vpatch.declare.patch import Proof
    from vpatch.harness.behaviour import Behaviour, Run
    from vpatch.library.patch import Patch


def run(
    context: Context,
    patches: Sequence[Patch],
    engine: str,
    vllm: str | None,
    root: Path | None,
    *,
    named: bool,
    as_json: bool,
) -> CommandResult | ExitCode:
    """Run what is for this engine, and say what is not run, and why; `root` gets evidence.

    Raises:
        UnavailableError: the extra `engine` is not installed.
        UsageError: `named` patches have no test for it.
    """
    require("engine", "`vpatch test --engine`")
    ran: list[BehaviourTestOutput] = []
    not_run: list[IdleTestOutput] = []
    failed = 0
    for one in run_proofs(context, patches, engine, vllm, root, named=named):
        patch, proof = one.patch, one.proof
        if one.found is None:
            reason = one.idle or ""
            not_run.append(IdleTestOutput(patch=patch.id, test=proof.test, reason=reason))
            if not as_json:
                click.echo(f"not run  {patch.id}  {proof.test}: {reason}")
            continue
        failed += bool(one.found.problems)
        ran.append(BehaviourTestOutput.of(one, one.found))
        if not as_json:
            _print(one, one.found)
    code = ExitCode.FINDINGS if failed or not ran else ExitCode.CLEAN
    if as_json:
        return CommandResult(TestOutput.of(behaviour_tests=ran, not_run=not_run), code)
    click.echo(holding(len(ran) - failed, len(ran), "behaviour test"))
    return code


def show(found: Generator[ReleaseTest], *, as_json: bool) -> CommandResult | ExitCode:
    """Run tests on releases, or on what a recipe makes; results are printed as they come."""
    require("engine", "`vpatch test --engine`")
    shown: list[ReleaseTestOutput] = []
    with closing(found) as results:
        for one in results:
            shown.append(ReleaseTestOutput.of(one))
            if not as_json:
                bad = one.found.outcome == "contradicts"
                click.echo(style(one.line, fg="red") if bad else one.line)
                for line in one.details:
                    click.echo(f"       {line}")
    counts = Counter(one.outcome for one in shown)
    code = ExitCode.FINDINGS if counts["contradicts"] else ExitCode.CLEAN
    if as_json:
        return CommandResult(TestOutput.of(releases=shown), code)
    words = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    click.echo(f"{words or 'no behaviour test'}; recorded before: {sum(o.recorded for o in shown)}")
    return code


def _print(one: ProvenTest, found: Behaviour) -> None:
    verdict = style("fails", fg="red") if found.problems else "holds"
    click.echo(f"{verdict}  {one.patch.id}  {one.proof.test}  vLLM {one.version} ({one.kind})")
    _print_run("pristine", found.pristine, one.proof)
    _print_run("patched", found.patched, one.proof)
    for problem in found.problems:
        click.echo("       " + problem.replace("\n", "\n       "))
    if one.folder is not None:
        click.echo(f"  evidence: {one.folder}")


def _print_run(label: str, run: Run, proof: Proof) -> None:
    count = {
        outcome: sum(test.outcome == outcome for test in run.tests)
        for outcome in ("passed", "failed", "skipped")
    }
    words = ", ".join(f"{number} {outcome}" for outcome, number in count.items() if number)
    click.echo(f"  {label:<9} {words or run.broken}")
    for test in run.tests:
        if test.outcome != "passed":
            click.echo(f"    {test.name} {test.outcome}: {test.shown(proof)}")
