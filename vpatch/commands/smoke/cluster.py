"""The use case `smoke --on`: each run of a cell is a job of a cluster, and all are one record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vpatch.cluster.parcel import Parcel
from vpatch.commands.smoke.checks import Check
from vpatch.commands.smoke.jobs import SmokeJobs, lost_run, run_of
from vpatch.commands.smoke.record import SmokeRun, image_record, machine_record, record_of
from vpatch.commands.smoke.run import CellVerdicts
from vpatch.evidence.records import ClusterMachine, RunEngine
from vpatch.evidence.store import ENVIRONMENT, LOGS, write_evidence
from vpatch.harness.models import PreparedModel, acceptance_of
from vpatch.runs.cluster_run import ClusterRun, NodeTasks, kept_below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.jobs import SmokeTask
    from vpatch.commands.smoke.point import PointRun
    from vpatch.commands.smoke.prove import OnResult
    from vpatch.commands.smoke.run import CellResult
    from vpatch.evidence.records import SmokeRecord
    from vpatch.harness.target import Phase
    from vpatch.progress import Progress
    from vpatch.runs.cluster_options import OnCluster


def run_smoke_on_cluster(
    points: Sequence[PointRun],
    where: OnCluster,
    root: Path,
    progress: Progress,
    on_result: OnResult,
) -> list[SmokeRecord]:
    """Run requests on a cluster together, and write the evidence of each to its folder.

    `on_result` gets what was found. All requests have the same engine and the same models.

    Raises:
        ClusterError: the cluster is not there, or was lost.
        NoNodeError: a cell fits on no node.
    """
    first = points[0].request
    parts = [_ClusterSmoke(point, on_result) for point in points]
    files = {path: text for part in parts for path, text in part.jobs.files.items()}
    models = {name: model for part in parts for name, model in part.jobs.models.items()}
    jobs = NodeTasks(
        [task for part in parts for task in part.jobs.tasks],
        Parcel(files),
        models,
        first.digests,
    )
    run = ClusterRun(jobs, where, kept_below(root), progress)
    run.make()
    records = []
    for part in parts:
        record = record_of(part.found(run))
        write_evidence(part.workdir, record)
        records.append(record)
    return records


class _ClusterSmoke:
    """A smoke run on a cluster, as far as it came."""

    def __init__(self, point: PointRun, on_result: OnResult) -> None:
        self.request, self.workdir, self.point = point.request, point.workdir, point.name
        self.on_result, self.image = on_result, point.trees.image
        self.kind_of_image = point.trees.kind
        self.begun = datetime.now(UTC).isoformat(timespec="seconds")
        logs = point.workdir / LOGS
        self.jobs = SmokeJobs(point.request, point.trees, logs, self._settle, point.name)
        self.kinds: set[str] = set()
        self.nodes: dict[str, ClusterMachine] = {}
        self.prepared: dict[str, PreparedModel] = {}
        self.imports: dict[Phase, Sequence[Check]] = {}
        self.results: list[CellResult] = []
        self.verdicts: dict[Phase, CellVerdicts] = {}

    def _settle(self, task: SmokeTask, node: str, result: Mapping[str, Any] | None) -> None:
        """Take a job's result, and tell what can be said now; None of a job that was lost."""
        if result is not None:
            facts = {"machine": result["machine"], "inherited": result["inherited"]}
            self.nodes.setdefault(node, ClusterMachine.model_validate(facts))
            self.kinds.add(result["engine"]["kind"])
        if task.cell is None:
            self._settle_imports(task, node, result)
            return
        if result is None:
            task.run = lost_run(task, task.cell, task.log)
        else:
            name, model = task.cell.model, result["model"]
            known = model["acceptance"]
            self.prepared[name] = PreparedModel(
                name, self.workdir, model["described"], model["digest"], known
            )
            task.run = run_of(task, task.cell, node, result, task.log)
        self._judge(task.phase)

    def _settle_imports(self, task: SmokeTask, node: str, result: Mapping[str, Any] | None) -> None:
        if result is not None:
            checks = [Check(*one) for one in result["checks"]]
            environment = result.get("environment")
            if environment is not None:
                (self.workdir / ENVIRONMENT).write_text(environment, encoding="utf-8")
        else:
            checks = [Check("modules", "fail", reason=task.why_lost)]
        self.imports[task.phase] = checks
        for check in checks:
            self._report(task.phase, f"{check.name} on {node}", [check])

    def _judge(self, phase: Phase) -> None:
        tasks = [task for task in self.jobs.tasks if task.phase == phase and task.cell]
        later = [task.cell for task in tasks if task.run is None and task.cell]
        self._verdicts(phase).look([task.run for task in tasks if task.run], later)

    def _verdicts(self, phase: Phase) -> CellVerdicts:
        if phase not in self.verdicts:
            acceptance = {name: acceptance_of(one) for name, one in self.jobs.models.items()}
            self.verdicts[phase] = CellVerdicts(
                phase, self.request.cells, self.jobs.digests(phase), acceptance, self._told
            )
        return self.verdicts[phase]

    def _told(self, result: CellResult) -> None:
        nodes = dict.fromkeys(run.there.node for run in result.visits if run.there)
        self.results.append(result)
        where = f" on {', '.join(nodes)}" if nodes else ""
        self._report(result.phase, f"{result.cell.name}{where}", result.checks)

    def _report(self, phase: str, what: str, checks: Sequence[Check]) -> None:
        self.on_result(phase, f"{self.point}: {what}" if self.point else what, checks)

    def found(self, run: ClusterRun) -> SmokeRun:
        """Return all of it for a record."""
        request = self.request
        cells = [task.run.there for task in self.jobs.tasks if task.run and task.run.there]
        image = self.image
        first = next((one.node for one in cells if one.node in self.nodes), None)
        return SmokeRun(
            name=request.name,
            made=self.begun,
            asked=request.asked if image else {**request.asked, "engine": run.engine},
            subject=request.subject,
            plan=request.smoke,
            engine=RunEngine(
                kind=next(iter(self.kinds), self.kind_of_image or run.kind), vllm=self.jobs.version
            ),
            image=image_record(image),
            machine=self.nodes[first].machine if first else machine_record(request.machine),
            checkpoints=self.prepared,
            imports=self.imports,
            results=sorted(self.results, key=self._place),
            patches=request.patches,
            machines=self.nodes,
        )

    def _place(self, result: CellResult) -> tuple[bool, int]:
        return result.phase == "after", self.request.cells.index(result.cell)
