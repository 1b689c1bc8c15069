"""The part of `vpatch test` that runs behaviour tests in an engine."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from vpatch.commands.proofs.output import (
    BehaviourTestOutput,
    IdleTestOutput,
    ReleaseTestOutput,
    TestOutput,
)
from vpatch.commands.proofs.usecase import run_proofs
from vpatch.console.output import style
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.runs.cluster_options import Here, OnCluster
from vpatch.util.extras import require
from vpatch.util.plural import holding

if TYPE_CHECKING:
    from collections.abc import Generator

    from vpatch.commands.proofs.releases import ReleaseTest
    from vpatch.commands.proofs.usecase import ProofRequest, ProvenTest
    from vpatch.declare.patch import Proof
    from vpatch.harness.behaviour import Behaviour, Run
    from vpatch.workspace.context import Context


def run_tests(
    context: Context, asked: ProofRequest, where: Here | OnCluster, *, as_json: bool
) -> CommandResult | ExitCode:
    """Run what is for this engine, and say what is not run, and why.

    Raises:
        UnavailableError: the extra `engine` is not installed.
        UsageError: the user named patches that have no test for it.
    """
    require("engine", "`vpatch test --engine`")
    shown = _Shown(as_json=as_json)
    if isinstance(where, OnCluster):
        require("ray", "`--cluster`")
        # Only these runs need it.
        from vpatch.commands.proofs.cluster import run_proofs_on_cluster  # noqa: PLC0415

        run_proofs_on_cluster(context, asked, where, shown.add)
    else:
        for one in run_proofs(context, asked):
            shown.add(one)
    return shown.end()


@dataclass
class _Shown:
    """The results of behaviour tests; without `as_json` they are printed as they come."""

    as_json: bool
    ran: list[BehaviourTestOutput] = field(default_factory=list)
    not_run: list[IdleTestOutput] = field(default_factory=list)
    failed: int = 0

    def add(self, one: ProvenTest) -> None:
        if one.found is None:
            patch, test, reason = one.patch.id, one.proof.test, one.idle or ""
            self.not_run.append(IdleTestOutput(patch=patch, test=test, reason=reason))
            return
        self.failed += bool(one.found.problems)
        self.ran.append(BehaviourTestOutput.model_validate(one))
        if not self.as_json:
            _print(one, one.found)

    def end(self) -> CommandResult | ExitCode:
        code = ExitCode.FINDINGS if self.failed or not self.ran else ExitCode.CLEAN
        if self.as_json:
            output = TestOutput.of(behaviour_tests=self.ran, not_run=self.not_run)
            return CommandResult(output, code)
        reasons: dict[str, list[str]] = {}
        for one in self.not_run:
            reasons.setdefault(one.reason, []).append(f"{one.patch}  {one.test}")
        for reason, tests in reasons.items():
            click.echo(f"not run  {', '.join(tests)}: {reason}")
        click.echo(holding(len(self.ran) - self.failed, len(self.ran), "behaviour test"))
        return code


def show(tests: Generator[ReleaseTest], *, as_json: bool) -> CommandResult | ExitCode:
    """Run tests on releases, or on what a recipe makes; results are printed as they come."""
    require("engine", "`vpatch test --engine`")
    shown: list[ReleaseTestOutput] = []
    with closing(tests) as results:
        for one in results:
            shown.append(ReleaseTestOutput.model_validate(one))
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


def _print(one: ProvenTest, behaviour: Behaviour) -> None:
    verdict = style("fails", fg="red") if behaviour.problems else "holds"
    click.echo(f"{verdict}  {one.patch.id}  {one.proof.test}  vLLM {one.version} ({one.kind})")
    _print_run("pristine", behaviour.pristine, one.proof)
    _print_run("patched", behaviour.patched, one.proof)
    for problem in behaviour.problems:
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
