"""Behaviour tests of patches: once on the pristine tree, once on the patched one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.engine.environment import Engine, packages_beside
from vpatch.engine.kinds import KINDS
from vpatch.engine.overlay import as_released
from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.evidence.behaviour import ProofRun, record_of_test
from vpatch.evidence.collecting import collected, refuse_unwritable
from vpatch.evidence.store import LOGS, write_evidence
from vpatch.evidence.subject import subject_trees
from vpatch.harness.behaviour import Behaviour, ProofPlans, run_behaviour_test
from vpatch.harness.machine import this_machine
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.spec import FolderSpec, parse_vllm
from vpatch.workspace.context import Context, exact_release, open_engine
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vpatch.declare.patch import Proof
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision, Plan
    from vpatch.source.tree import Pin


class IdleError(VpatchError):
    """The behaviour test would prove nothing here, or it cannot run here."""

    code = "harness.nothing-to-prove"


def refuse_unfit(own: Engine) -> None:
    if not own.has_pytest:
        raise UsageError(
            "it has no pytest",
            where=str(own.python),
            hint="install pytest in it",
            code="engine.no-pytest",
        )
    if own.kind not in KINDS:
        raise UsageError(
            f"its vLLM runs on {own.kind}, but behaviour tests run on cpu or cuda",
            where=str(own.python),
            hint="use a vLLM that runs on cpu or cuda",
            code="harness.no-test",
        )


def engine_of_tests(context: Context, engine: str) -> tuple[Engine | None, str]:
    """Return the engine of a Python, None for one that vpatch makes; and the kind of tests for it.

    Raises:
        UsageError: behaviour tests cannot run in that Python.
    """
    if engine in KINDS:
        return None, engine
    own = context.own_engine(engine)
    refuse_unfit(own)
    return own, own.kind


def no_test(patch: Patch, kind: str) -> UsageError:
    others = ", ".join(sorted({proof.engine for proof in patch.declaration.proof}))
    return UsageError(
        f"{patch.id} has no behaviour test for {kind}",
        where=str(patch.folder),
        hint=f"it has one for {others}" if others else "declare one under proof",
        code="harness.no-test",
    )


def refuse_other(proof: Proof, kind: str, version: str, own: Engine | None) -> None:
    if proof.engine != kind:
        raise IdleError(f"it needs {proof.engine}")
    if own is not None and version == proof.vllm != own.version:
        raise IdleError(
            f"it is written for vLLM {version}, but this Python has {own.version}",
            hint=f"give --vllm {own.version} to run it all the same",
        )


def proof_plans(
    context: Context, patch: Patch, proof: Proof, version: str, stack: ExitStack
) -> ProofPlans:
    """Plan the patched tree of a proof, for a release of vLLM."""
    wanted = with_required([*proof.on_top_of, patch.id], context.library)
    tree = stack.enter_context(context.tree(parse_vllm(version)))
    required = with_required(proof.on_top_of, context.library)
    before = plan(_concerning(required, "vllm"), tree)
    after = plan(_concerning(wanted, "vllm"), tree)
    plugins = []
    for name, place in proof.trees.items():
        folder = patch.folder / place
        tree = stack.enter_context(context.tree(FolderSpec(name, str(folder))))
        plugins.append((plan(_concerning(wanted, name), tree), folder))
    return ProofPlans(before, after, plugins, references_of(context, proof, stack))


def references_of(context: Context, proof: Proof, stack: ExitStack) -> dict[str, Path]:
    """Open the releases that a proof compares with; return their folders by variable."""
    return {
        variable: stack.enter_context(context.tree(parse_vllm(release))).files
        for variable, release in proof.references.items()
    }


@dataclass(frozen=True)
class ProvenTest:
    """What came of one behaviour test. Either `found` or `idle` is None.

    `found` is the result, with the folder of its evidence if any. `idle` says why it did not run.
    """

    patch: Patch
    proof: Proof
    kind: str
    version: str
    found: Behaviour | None = None
    folder: Path | None = None
    idle: str | None = None


@dataclass(frozen=True)
class ProofRequest:
    """Which behaviour tests run, in which engine.

    Attributes:
        patches: their tests run.
        engine: `cpu`, `cuda`, or the path of a Python.
        vllm: a release instead of the one that a test declares.
        root: the folder that gets evidence, if any.
        named: whether the user named the patches. Then one without a test is an error.
    """

    patches: Sequence[Patch]
    engine: str
    vllm: str | None
    root: Path | None
    named: bool


def run_proofs(context: Context, asked: ProofRequest) -> Iterator[ProvenTest]:
    """Run behaviour tests on this machine, and yield each result when it is there.

    Raises:
        UsageError: a named patch has no test for this engine.
        VpatchError: an engine or a source is not there.
    """
    engine, named = asked.engine, asked.named
    own, kind = engine_of_tests(context, engine)
    for patch in asked.patches:
        if named and all(proof.engine != kind for proof in patch.declaration.proof):
            raise no_test(patch, kind)
    require_trust_of_tests(context, asked.patches, kind)
    if asked.root is not None:
        refuse_unwritable(asked.root)
    total = sum(one.engine == kind for patch in asked.patches for one in patch.declaration.proof)
    number = 0
    for patch in asked.patches:
        for proof in patch.declaration.proof:
            version = asked.vllm or proof.vllm
            number += proof.engine == kind
            try:
                refuse_other(proof, kind, version, own)
                job = _ProofJob(patch, proof, version, f"{number} of {total}")
                result, folder = run_proof(context, job, engine, own, asked.root)
            except IdleError as idle:
                if named and proof.engine == kind:
                    raise
                yield ProvenTest(patch, proof, kind, version, idle=idle.what)
            else:
                yield ProvenTest(patch, proof, kind, version, result, folder)


def require_trust_of_tests(context: Context, patches: Iterable[Patch], kind: str | None) -> None:
    """Refuse to run tests for a kind of engine, before a tree is planned or an engine is made.

    An engine runs the tests, and what their patches insert. None is any kind.

    Raises:
        UntrustedError: some of it is not trusted; the error lists all of that.
    """
    proofs = [(p, proof) for p in patches for proof in p.declaration.proof]
    proofs = [(patch, proof) for patch, proof in proofs if kind in {None, proof.engine}]
    below = [name for _, proof in proofs for name in proof.on_top_of]
    context.require_trust(with_required([*below, *(p.id for p, _ in proofs)], context.library))


@dataclass(frozen=True)
class _ProofJob:
    """A test to run in a release of vLLM; `count` says which one of how many it is."""

    patch: Patch
    proof: Proof
    version: str
    count: str


def run_proof(
    context: Context, job: _ProofJob, engine: str, own: Engine | None, root: Path | None
) -> tuple[Behaviour, Path | None]:
    """Run a test. What it would prove is planned first: to make an engine takes minutes."""
    patch, proof, version = job.patch, job.proof, job.version
    start = datetime.now(UTC)
    with ExitStack() as stack:
        release = own.version if own is not None else exact_release(context, version)
        if refusal := proof.refusal(release):
            raise IdleError(f"{proof.test} is not for vLLM {release}: {refusal}")
        plans = proof_plans(context, patch, proof, version, stack)
        refuse_idle(patch, plans.all_after)
        build = stack.enter_context(open_engine(context, engine, version))
        beside = packages_beside(build, proof.packages, context.progress, offline=context.offline)
        for path in as_released(build, plans.after):
            context.progress.note(f"this build of {version} has another {path}: the release's runs")
        name = f"{patch.id}-{Path(proof.test).stem}-{build.kind}-{start:%Y%m%d-%H%M%S}"
        workdir = None
        if root is not None:
            collecting = stack.enter_context(collected(root, name, numbered=True))
            workdir, name = collecting.workdir, collecting.name
        what = f"Running {proof.test} of {patch.id} in {build}, twice ({job.count})"
        task = context.progress.start(what)
        try:
            test, logs = context.trust.copy_of(patch.folder), workdir and workdir / LOGS
            result = run_behaviour_test(test, proof, build, plans.trees(beside), logs)
            if workdir is not None:
                ran = ProofRun(
                    name=name,
                    timestamp=start.isoformat(timespec="seconds"),
                    asked={"patch": patch.id, "engine": engine, "vllm": version},
                    subject=subject_trees(plans.all_after),
                    patch=patch,
                    proof=proof,
                    engine=build.kind,
                    vllm=build.version,
                    machine=this_machine(),
                    behaviour=result,
                )
                write_evidence(workdir, record_of_test(ran))
        except OSError as error:
            raise could_not_run(patch, proof, error) from error
        task.done()
    return result, root / name if root else None


def could_not_run(patch: Patch, proof: Proof, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"the run could not be made: {error}",
        where=str(patch.folder / proof.test),
        hint="free space in the folder for temporary files, or name another with TMPDIR",
        code="harness.could-not-run",
    )


def _concerning(patches: Sequence[Patch], tree: str) -> list[Patch]:
    return [patch for patch in patches if tree in patch.declaration.needed_in]


def why_idle(patch: Patch, plans: Sequence[Plan]) -> tuple[Pin, Decision] | None:
    """Return the decision that leaves a patch nothing to prove; None where it is needed."""
    decisions = [(one.pin, d) for one in plans for d in one.decisions]
    mine = [(pin, d) for pin, d in decisions if d.patch.id == patch.id]
    stopping = [(pin, d) for pin, d in decisions if d.state.stops]
    idle = [] if any(d.state is State.NEEDED for _, d in mine) else mine
    return next(iter(stopping or idle), None)


def refuse_idle(patch: Patch, plans: Sequence[Plan]) -> None:
    """Refuse a test that would prove nothing.

    Raises:
        IdleError: the patch is not needed there, or another one stops.
    """
    if idle := why_idle(patch, plans):
        pin, decision = idle
        raise IdleError(
            f"{decision.patch.id} is {decision.state} in {pin.label}: {decision.reason}",
            hint="give a --vllm that needs it; vpatch status --vllm all shows which do",
        )
