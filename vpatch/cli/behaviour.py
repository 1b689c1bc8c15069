"""The part of `vpatch test` that runs behaviour tests in an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.app.proofs import run_proofs
from vpatch.cli.output import style
from vpatch.cli.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.output.library import BehaviourTestOutput, IdleTestOutput, TestOutput
from vpatch.util.extras import require
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.app.context import Context
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
        ran.append(
            BehaviourTestOutput.of(
                patch.id, proof.test, one.kind, one.version, one.found, one.folder
            )
        )
        if not as_json:
            _print(patch, proof, f"vLLM {one.version} ({one.kind})", one.found, one.folder)
    code = ExitCode.FINDINGS if failed or not ran else ExitCode.CLEAN
    if as_json:
        return CommandResult(TestOutput(examples=[], behaviour_tests=ran, not_run=not_run), code)
    click.echo(f"{len(ran) - failed} of {counted(len(ran), 'behaviour test')} hold")
    return code


def _print(
    patch: Patch, proof: Proof, engine: str, found: Behaviour, evidence: Path | None
) -> None:
    verdict = style("fails", fg="red") if found.problems else "holds"
    click.echo(f"{verdict}  {patch.id}  {proof.test}  {engine}")
    _print_run("pristine", found.pristine, proof)
    _print_run("patched", found.patched, proof)
    for problem in found.problems:
        click.echo("       " + problem.replace("\n", "\n       "))
    if evidence is not None:
        click.echo(f"  evidence: {evidence}")


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
