"""The part of `vpatch test` that runs behaviour tests in an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vpatch.app.proofs import IdleError, no_test, refuse_other, refuse_unfit, run_proof
from vpatch.cli.output import style
from vpatch.cli.result import CommandResult
from vpatch.engine.environment import KINDS
from vpatch.errors import ExitCode
from vpatch.output.library import BehaviourTestOutput, IdleTestOutput, TestOutput
from vpatch.util.extras import require
from vpatch.util.matching import PatternFaultError, found_in
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.declare.patch import Proof
    from vpatch.harness.behaviour import Behaviour, Run, TestResult
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
    own = None if engine in KINDS else context.own_engine(engine)
    if own is not None:
        refuse_unfit(own)
    kind = own.kind if own else engine
    for patch in patches:
        if named and all(proof.engine != kind for proof in patch.declaration.proof):
            raise no_test(patch, kind)
        for proof in patch.declaration.proof:
            version = vllm or proof.vllm
            try:
                refuse_other(proof, kind, version, own)
                found, folder = run_proof(context, patch, proof, engine, version, root)
            except IdleError as idle:
                if named and proof.engine == kind:
                    raise
                not_run.append(IdleTestOutput(patch=patch.id, test=proof.test, reason=idle.what))
                if not as_json:
                    click.echo(f"not run  {patch.id}  {proof.test}: {idle.what}")
                continue
            failed += bool(found.problems)
            ran.append(BehaviourTestOutput.of(patch.id, proof.test, kind, version, found, folder))
            if not as_json:
                _print(patch, proof, f"vLLM {version} ({kind})", found, folder)
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
            click.echo(f"    {test.name} {test.outcome}: {_line(test, proof)}")


def _line(test: TestResult, proof: Proof) -> str:
    """The line of a message that says it: that which is declared, or else the first."""
    wanted = proof.fails_before.get(test.function, "")
    lines = test.message.splitlines() or [""]
    try:
        return next(iter(found_in(wanted, lines)), lines[0])
    except PatternFaultError:
        return lines[0]  # the verdict says what is wrong with it
