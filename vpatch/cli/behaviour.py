"""The part of `vpatch test` that runs behaviour tests in an engine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch.cli import render
from vpatch.cli.output import style
from vpatch.cli.session import Session, open_engine
from vpatch.engine.behaviour import Behaviour, Ground, Outcome, Run, prove
from vpatch.engine.environment import KINDS, Engine, packages_beside
from vpatch.engine.overlay import as_released
from vpatch.errors import ExitCode, UsageError, VpatchError
from vpatch.jobs import with_required
from vpatch.matching import PatternFaultError, found_in
from vpatch.outcome import State
from vpatch.plan import plan
from vpatch.smoke.collecting import collected
from vpatch.smoke.evidence import LOGS, write_evidence
from vpatch.smoke.machine import this_machine
from vpatch.smoke.subject import subject_of
from vpatch.smoke.tested import Tested, record_of_test
from vpatch.source.spec import FolderSpec, parse_vllm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.declare.patch import Proof
    from vpatch.outcome import Plan
    from vpatch.patch import Patch


class _IdleError(VpatchError):
    """The patch changes nothing here: a test without it, twice, would prove nothing."""


def run(
    session: Session,
    patches: Sequence[Patch],
    engine: str,
    vllm: str | None,
    root: Path | None,
    *,
    named: bool,
    as_json: bool,
) -> ExitCode:
    """Run what is for this engine, and say what is not run, and why; `root` gets evidence.

    Raises:
        UsageError: `named` patches have no test for it.
    """
    documents: list[dict[str, Any]] = []
    failed = 0
    own = None if engine in KINDS else session.own_engine(engine)
    if own is not None:
        _refuse_unfit(own)
    kind = own.kind if own else engine
    for patch in patches:
        if named and all(proof.engine != kind for proof in patch.declaration.proof):
            raise _no_test(patch, kind)
        for proof in patch.declaration.proof:
            version = vllm or proof.vllm
            try:
                _refuse_other(proof, kind, version, own)
                found, folder = _prove(session, patch, proof, engine, version, root)
            except _IdleError as idle:
                if named and proof.engine == kind:
                    raise
                if not as_json:
                    click.echo(f"not run  {patch.id}  {proof.test}: {idle.what}")
                continue
            failed += bool(found.problems)
            head = {"patch": patch.id, "test": proof.test, "engine": kind, "vllm": version}
            kept = {"evidence": str(folder)} if folder else {}
            documents.append(head | asdict(found) | kept)
            if not as_json:
                _print(patch, proof, f"vLLM {version} ({kind})", found, folder)
    ran = len(documents)
    if as_json:
        render.print_json(documents)
    else:
        click.echo(f"{ran - failed} of {render.counted(ran, 'behaviour test')} hold")
    return ExitCode.FINDINGS if failed or not ran else ExitCode.CLEAN


def _refuse_unfit(own: Engine) -> None:
    if not own.has_pytest:
        raise UsageError("it has no pytest", where=str(own.python), todo="install pytest there")
    if own.kind not in KINDS:
        raise UsageError(
            f"its vLLM runs on {own.kind}, for which no behaviour test is declared",
            where=str(own.python),
            todo="use one that runs on cpu or cuda",
        )


def _no_test(patch: Patch, kind: str) -> UsageError:
    others = ", ".join(sorted({proof.engine for proof in patch.declaration.proof}))
    return UsageError(
        f"{patch.id} has no behaviour test for {kind}",
        where=str(patch.folder),
        todo=f"it has one for {others}" if others else "declare one under proof",
    )


def _refuse_other(proof: Proof, kind: str, version: str, own: Engine | None) -> None:
    if proof.engine != kind:
        raise _IdleError(f"it needs {proof.engine}")
    if own is not None and version == proof.vllm != own.version:
        raise _IdleError(
            f"it is written for vLLM {version}, and that has {own.version}",
            todo=f"give --vllm {own.version} to run it there all the same",
        )


def ground_of(
    session: Session, patch: Patch, proof: Proof, version: str, stack: ExitStack
) -> Ground:
    """Plan what a proof stands on, for a release of vLLM."""
    wanted = with_required([*proof.on_top_of, patch.id], session.library)
    tree = stack.enter_context(session.tree(parse_vllm(version)))
    ground = with_required(proof.on_top_of, session.library)
    before = plan(_concerning(ground, "vllm"), tree)
    after = plan(_concerning(wanted, "vllm"), tree)
    plugins = []
    for name, place in proof.trees.items():
        folder = patch.folder / place
        tree = stack.enter_context(session.tree(FolderSpec(name, str(folder))))
        plugins.append((plan(_concerning(wanted, name), tree), folder))
    references: dict[str, Path] = {}
    for variable, release in proof.references.items():
        spec = parse_vllm(release)
        references[variable] = stack.enter_context(session.tree(spec)).files
    return Ground(before, after, plugins, references)


def _prove(
    session: Session, patch: Patch, proof: Proof, engine: str, version: str, root: Path | None
) -> tuple[Behaviour, Path | None]:
    made = datetime.now(UTC)
    with ExitStack() as stack:
        found = stack.enter_context(open_engine(session, engine, version))
        ground = ground_of(session, patch, proof, version, stack)
        # An engine runs what they insert, and the test.
        session.require_trust(with_required([*proof.on_top_of, patch.id], session.library))
        _refuse_idle(patch, ground.all_after)
        beside = packages_beside(found, proof.packages, session.progress, offline=session.offline)
        ground = replace(ground, packages=beside)
        for path in as_released(found, ground.after):
            session.progress.note(f"this build of {version} has another {path}: the release's runs")
        name = f"{patch.id}-{Path(proof.test).stem}-{found.kind}-{made:%Y%m%d-%H%M%S}"
        room = None
        if root is not None:
            collecting = stack.enter_context(collected(root, name, numbered=True))
            room, name = collecting.room, collecting.name
        task = session.progress.start(f"Running {proof.test} of {patch.id} in {found}, twice")
        try:
            test = replace(patch, folder=session.trust.copy_of(patch.folder))
            result = prove(test, proof, found, ground, room and room / LOGS)
            if room is not None:
                ran = Tested(
                    name=name,
                    made=made.isoformat(timespec="seconds"),
                    asked={"patch": patch.id, "engine": engine, "vllm": version},
                    subject=subject_of(ground.all_after),
                    patch=patch,
                    proof=proof,
                    engine=found.kind,
                    vllm=found.version,
                    machine=this_machine(),
                    found=result,
                )
                write_evidence(room, record_of_test(ran))
        except OSError as error:
            raise VpatchError(
                f"the run could not be made: {error}",
                where=str(patch.folder / proof.test),
                todo="free space in the folder for temporary files, or name another with TMPDIR",
            ) from error
        task.done()
    return result, root / name if root else None


def _concerning(patches: Sequence[Patch], tree: str) -> list[Patch]:
    return [patch for patch in patches if tree in patch.declaration.needed_in]


def _refuse_idle(patch: Patch, plans: Sequence[Plan]) -> None:
    decisions = [(made.pin, d) for made in plans for d in made.decisions]
    mine = [(pin, d) for pin, d in decisions if d.patch.id == patch.id]
    stopping = [(pin, d) for pin, d in decisions if d.state.stops]
    idle = [] if any(d.state is State.NEEDED for _, d in mine) else mine
    for pin, decision in stopping or idle:
        raise _IdleError(
            f"{decision.patch.id} is {decision.state} in {pin.label}: {decision.reason}",
            todo="give a --vllm that needs it: see vpatch status --all",
        )


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


def _line(test: Outcome, proof: Proof) -> str:
    """The line of a message that says it: that which is declared, or else the first."""
    wanted = proof.fails_before.get(test.function, "")
    lines = test.message.splitlines() or [""]
    try:
        return next(iter(found_in(wanted, lines)), lines[0])
    except PatternFaultError:
        return lines[0]  # the verdict says what is wrong with it
