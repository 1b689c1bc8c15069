"""The use case `smoke --cluster`: each run of a cell is a job of a cluster, all in one record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.commands.smoke.cells import visits
from vpatch.commands.smoke.checks import Check
from vpatch.commands.smoke.node import CellAnswer, CellJob, ImportsAnswer, ImportsJob
from vpatch.commands.smoke.record import SmokeRun, machine_record, record_of
from vpatch.commands.smoke.run import CellRun, CellVerdicts, NodeRun, log_name
from vpatch.evidence.records import ClusterMachine, RunEngine
from vpatch.evidence.store import ENVIRONMENT, LOGS, write_evidence
from vpatch.evidence.subject import digest_of_subject
from vpatch.harness.measured import Measured
from vpatch.harness.models import PreparedModel, acceptance_of
from vpatch.runs.cluster_nodes import WantedNode
from vpatch.runs.cluster_run import ClusterRun, NodeTask
from vpatch.runs.node_image import name_for_nodes
from vpatch.runs.node_job import answer_in
from vpatch.runs.packed_trees import digests_of, packed
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.commands.smoke.cells import Cell
    from vpatch.commands.smoke.point import PointRun
    from vpatch.commands.smoke.prove import OnResult
    from vpatch.commands.smoke.run import CellResult
    from vpatch.evidence.records import SmokeRecord
    from vpatch.harness.target import Phase
    from vpatch.progress import Progress
    from vpatch.runs.cluster_options import OnCluster
    from vpatch.runs.node_job import RunAnswer

# A part of each key. Increase it when the content of a result changes.
_FORMAT = 2


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
    parts = [ClusterSmoke(point, on_result) for point in points]
    run = ClusterRun(
        [task for part in parts for task in part.tasks],
        {path: text for part in parts for path, text in part.packed.files.items()},
        where,
        root,
        progress,
        points[0].request.digests,
    )
    run.make()
    records = []
    for part in parts:
        record = record_of(part.result(run))
        write_evidence(part.workdir, record)
        records.append(record)
    return records


@dataclass(kw_only=True)
class CellTask(NodeTask):
    """One run of a cell."""

    job: CellJob
    part: ClusterSmoke
    run: CellRun | None = None

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        lost = tuple(self.lost)
        if files is None:
            there = NodeRun(lost[-1][0] or "none", "", {}, lost)
            measured = Measured(fault=self.fault)
        else:
            answer = answer_in(files, CellAnswer)
            self.part.take(node, answer)
            self.part.prepared[self.job.model] = PreparedModel(
                self.job.model, self.part.workdir, **dict(answer.model)
            )
            machine, measured = answer.machine, answer.measured
            hardware = str((machine.processor, machine.cores, machine.gpus))
            there = NodeRun(node, hardware, answer.digests, lost)
        self.run = CellRun(self.job.cell, self.log, measured, there=there)
        self.part.judge(self.job.phase)


@dataclass(kw_only=True)
class ImportsTask(NodeTask):
    """The imports of a phase. The one with the patches also reports the environment."""

    is_cell = False
    job: ImportsJob
    part: ClusterSmoke

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        checks = [Check("modules", "fail", reason=self.why_lost)] if files is None else []
        if files is not None:
            answer = answer_in(files, ImportsAnswer)
            self.part.take(node, answer)
            checks = [Check(*one) for one in answer.checks]
            if answer.environment is not None:
                file = self.part.workdir / ENVIRONMENT
                file.write_text(answer.environment, encoding="utf-8")
        self.part.imports[self.job.phase] = checks
        for check in checks:
            self.part.report(self.job.phase, f"{check.name} on {node}", [check])


class ClusterSmoke:
    """A smoke run on a cluster, as far as it came. `tasks` are its jobs."""

    def __init__(self, point: PointRun, on_result: OnResult) -> None:
        self.request, self.trees, self.on_result = point.request, point.trees, on_result
        self.workdir, self.point = point.workdir, point.name
        self.begun = datetime.now(UTC).isoformat(timespec="seconds")
        self.contents = point.trees.contents
        self.packed = packed(self.contents, f"trees/{point.name}" if point.name else "trees")
        self.facts: dict[str, JsonValue] = {
            "format": _FORMAT,
            "subject": digest_of_subject(point.request.subject),
            "files": digests_of(self.packed.files),
            "imports": point.request.smoke.imports.model_dump(mode="json"),
        }
        phases = point.request.phases
        self.tasks = [task for phase in phases for task in self._tasks(phase)]
        self.kinds: set[str] = set()
        self.nodes: dict[str, ClusterMachine] = {}
        self.prepared: dict[str, PreparedModel] = {}
        self.imports: dict[Phase, Sequence[Check]] = {}
        self.results: list[CellResult] = []
        self.verdicts = {phase: self._verdicts(phase) for phase in phases}

    def _tasks(self, phase: Phase) -> Iterator[CellTask | ImportsTask]:
        request, version, trees = self.request, self.trees.version, self.packed.trees
        imports, planned = request.smoke.imports, list(visits(request.cells))
        facts: dict[str, JsonValue] = {**self.facts, "phase": phase}
        where, logs = f"{self.point}: {phase}" if self.point else phase, self.workdir / LOGS
        if phase == "after" or imports.modules or imports.operators:
            first = request.cells[0]
            yield ImportsTask(
                title=f"{where}, imports",
                log=logs / f"{phase}-imports.log",
                wanted=self._wanted(first),
                limit=0.0,
                job=ImportsJob(
                    version=version,
                    trees=trees,
                    phase=phase,
                    imports=imports,
                    environment=dict(first.environment),
                ),
                facts={**facts, "round": 0},
                part=self,
            )
        for number, (round_, cell) in enumerate(planned, 1):
            job = CellJob(
                version=version,
                trees=trees,
                phase=phase,
                cell=cell,
                model=cell.model,
                checkpoint=request.models[cell.model],
            )
            described = job.model_dump(mode="json", by_alias=True, include={"cell"})["cell"]
            yield CellTask(
                title=f"{where}, {number} of {len(planned)}: {cell.name}",
                log=logs / log_name(phase, number, cell),
                wanted=self._wanted(cell),
                limit=cell.timeouts.start + cell.timeouts.cell + cell.timeouts.stop,
                job=job,
                facts={**facts, "round": round_, "cell": described},
                part=self,
            )

    def _wanted(self, cell: Cell) -> WantedNode:
        image = self.trees.image and name_for_nodes(self.trees.image)
        return WantedNode(cell.name, cell.needs, cell.tensor_parallel, cell.model, image=image)

    def take(self, node: str, answer: RunAnswer) -> None:
        """Take what each node says of itself."""
        self.nodes.setdefault(node, ClusterMachine.model_validate(answer, from_attributes=True))
        self.kinds.add(answer.engine.kind)

    def judge(self, phase: Phase) -> None:
        """Tell what can be said of the cells of a phase now."""
        tasks = [task for task in self._cells() if task.job.phase == phase]
        later = [task.job.cell for task in tasks if task.run is None]
        self.verdicts[phase].look([task.run for task in tasks if task.run], later)

    def _cells(self) -> list[CellTask]:
        return [task for task in self.tasks if isinstance(task, CellTask)]

    def _verdicts(self, phase: Phase) -> CellVerdicts:
        digests: dict[str, str] = {}
        if phase == "after":
            # The files that patches change are the same on every node.
            changes = [change for tree in self.contents for change in tree.changes.items()]
            digests = {path: digest_of(change.after) for path, change in changes}
            digests |= self.trees.installed
        acceptance = {name: acceptance_of(one) for name, one in self.request.models.items()}
        return CellVerdicts(phase, self.request.cells, digests, acceptance, self._tell)

    def _tell(self, result: CellResult) -> None:
        nodes = dict.fromkeys(run.there.node for run in result.visits if run.there)
        self.results.append(result)
        where = f" on {', '.join(nodes)}" if nodes else ""
        self.report(result.phase, f"{result.cell.name}{where}", result.checks)

    def report(self, phase: str, what: str, checks: Sequence[Check]) -> None:
        """Tell what was found on a node."""
        self.on_result(phase, f"{self.point}: {what}" if self.point else what, checks)

    def result(self, run: ClusterRun) -> SmokeRun:
        """Return all of it for a record."""
        request, image = self.request, self.trees.image
        cells = [task.run.there for task in self._cells() if task.run and task.run.there]
        first = next((one.node for one in cells if one.node in self.nodes), None)
        kind = next(iter(self.kinds), self.trees.kind or run.kind)
        if not image:
            request = replace(request, asked={**request.asked, "engine": run.engine})
        return SmokeRun(
            request=request,
            timestamp=self.begun,
            engine=RunEngine(kind=kind, vllm=self.trees.version),
            image=image,
            machine=self.nodes[first].machine if first else machine_record(request.machine),
            checkpoints=self.prepared,
            imports=self.imports,
            results=sorted(self.results, key=self._place),
            machines=self.nodes,
        )

    def _place(self, result: CellResult) -> tuple[bool, int]:
        return result.phase == "after", self.request.cells.index(result.cell)
