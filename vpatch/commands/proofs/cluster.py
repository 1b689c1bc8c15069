"""The use case `test --engine ... --on`: behaviour tests on the nodes of a cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.cluster.job import RESULT
from vpatch.cluster.parcel import Parcel
from vpatch.commands.proofs.jobs import ProofSink, proof_task
from vpatch.commands.proofs.usecase import IdleError, ProvenTest, no_test, refuse_other
from vpatch.engine.kinds import KINDS
from vpatch.errors import UnavailableError, UsageError, VpatchError, combine
from vpatch.evidence.behaviour import ProofRun, record_of_test
from vpatch.evidence.collecting import collected
from vpatch.evidence.store import LOGS, write_evidence
from vpatch.harness.behaviour import Behaviour
from vpatch.harness.machine import Machine
from vpatch.harness.wire import from_json
from vpatch.runs.cluster_run import ClusterRun, NodeTasks, kept_below
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vpatch.commands.proofs.jobs import ProofTask
    from vpatch.commands.proofs.usecase import ProofRequest
    from vpatch.runs.cluster_options import OnCluster
    from vpatch.workspace.context import Context


def run_proofs_on_cluster(
    context: Context,
    asked: ProofRequest,
    where: OnCluster,
    on_result: Callable[[ProvenTest], None],
) -> None:
    """Run behaviour tests on the nodes of a cluster; `on_result` gets each result when it is there.

    Raises:
        UsageError: a named patch has no test for this engine, or `--resume` has no evidence.
        UnavailableError: the cluster is not there or was lost, a test fits on no node, or no
            attempt at a test came back. The other tests ran.
    """
    if where.resume and asked.root is None:
        raise UsageError(
            "--resume would have no effect without --evidence-dir",
            hint="give the folder of the evidence, where results are kept",
            code="cli.unused-option",
        )
    kind = KINDS.get(asked.engine) and asked.engine
    began = datetime.now(UTC)
    errors: list[VpatchError] = []
    with scratch_folder() as name:

        def settled(task: ProofTask, node: str, files: Mapping[str, bytes] | None) -> None:
            if files is None:
                errors.append(_lost(task))
            else:
                on_result(_proven(asked, task, node, files, run, began))

        def left_out(task: ProofTask, why: str) -> None:
            patch, proof = task.patch, task.proof
            if asked.named and all(one.engine != run.kind for one in patch.declaration.proof):
                errors.append(no_test(patch, run.kind))
            else:
                on_result(ProvenTest(patch, proof, run.kind, task.release, idle=why))

        tasks = _tasks(context, asked, kind, ProofSink(Path(name), settled, left_out), on_result)
        files = {path: text for task in tasks for path, text in task.files.items()}
        jobs = NodeTasks(tasks, Parcel(files))
        kept = None if asked.root is None else kept_below(asked.root)
        run = ClusterRun(jobs, where, kept, context.progress)
        if tasks:
            run.make()
    if errors:
        raise combine(errors)


def _tasks(
    context: Context,
    asked: ProofRequest,
    kind: str | None,
    into: ProofSink,
    on_result: Callable[[ProvenTest], None],
) -> list[ProofTask]:
    """Plan the tests; `kind` is that of the engine, None if only the nodes know it."""
    tasks: list[ProofTask] = []
    for patch in asked.patches:
        proofs = patch.declaration.proof
        if asked.named and all(kind not in {None, one.engine} for one in proofs):
            raise no_test(patch, asked.engine)
        for proof in proofs:
            version, at = asked.vllm or proof.vllm, f"proofs/{len(tasks)}"
            try:
                if kind is not None:
                    refuse_other(proof, kind, version, None)
                tasks.append(proof_task(context, patch, proof, version, at, into))
            except IdleError as idle:
                if asked.named and kind in {None, proof.engine}:
                    raise
                on_result(
                    ProvenTest(patch, proof, str(kind or proof.engine), version, idle=idle.what)
                )
    return tasks


def _lost(task: ProofTask) -> VpatchError:
    return UnavailableError(
        f"the test was lost: {task.why_lost}",
        where=str(task.patch.folder / task.proof.test),
        hint="look at the nodes, then run the command again with --resume",
        code="cluster.test-lost",
    )


def _proven(
    asked: ProofRequest,
    task: ProofTask,
    node: str,
    files: Mapping[str, bytes],
    run: ClusterRun,
    began: datetime,
) -> ProvenTest:
    """What came of a job, with evidence if that is asked for."""
    patch, proof, result = task.patch, task.proof, json.loads(files[RESULT])
    kind = result["engine"]["kind"]
    if "idle" in result:
        return ProvenTest(patch, proof, kind, task.release, idle=result["idle"])
    behaviour = from_json(Behaviour, result["found"])
    name = f"{patch.id}-{Path(proof.test).stem}-{kind}-{began:%Y%m%d-%H%M%S}"
    if asked.root is None:
        return ProvenTest(patch, proof, kind, task.release, behaviour)
    with collected(asked.root, name, numbered=True) as collecting:
        for path, content in files.items():
            folder, slash, file = path.partition("/")
            if slash and folder == LOGS:
                (collecting.workdir / LOGS / file).write_bytes(content)
        ran = ProofRun(
            name=collecting.name,
            made=began.isoformat(timespec="seconds"),
            asked={
                "patch": patch.id,
                "engine": asked.engine,
                "vllm": task.release,
                "on": run.where.address,
            },
            subject=task.subject,
            patch=patch,
            proof=proof,
            engine=kind,
            vllm=result["engine"]["version"],
            machine=from_json(Machine, run.machines[node]["machine"]),
            behaviour=behaviour,
        )
        write_evidence(collecting.workdir, record_of_test(ran))
    return ProvenTest(patch, proof, kind, task.release, behaviour, asked.root / collecting.name)
