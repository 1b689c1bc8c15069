"""The use case `bench --on`: what a side measures of a model is a job, and all are one record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.cluster.job import RESULT
from vpatch.cluster.parcel import Parcel
from vpatch.commands.bench.cells import side_names
from vpatch.commands.bench.jobs import BenchJobs, lost_runs, runs_of
from vpatch.commands.bench.record import RAW, point_of, write_record
from vpatch.commands.bench.run import datasets_of
from vpatch.commands.bench.schema import (
    SCHEMA_VERSION,
    BenchRecord,
    ClientRecord,
    EngineRecord,
    ImageRecord,
    MachineRecord,
    ModelRecord,
    NodeRecord,
    PlanRecord,
    Side,
)
from vpatch.errors import VpatchError
from vpatch.evidence.store import LOGS
from vpatch.harness.machine import this_machine
from vpatch.runs.cluster_run import ClusterRun, NodeTasks, kept_below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bench.jobs import BenchTask
    from vpatch.commands.bench.measure import LoadRun
    from vpatch.commands.bench.run import OnLoadRun
    from vpatch.commands.bench.sides import PlannedSide
    from vpatch.declare.bench import Bench
    from vpatch.progress import Progress
    from vpatch.runs.cluster_options import OnCluster


@dataclass(frozen=True)
class ClusterBench:
    """A benchmark for a cluster; `digests` is the cache's folder for digests of large files."""

    name: str
    asked: Mapping[str, str | int | list[str]]
    plan: Bench
    sides: Sequence[PlannedSide]
    digests: Path


def run_bench_on_cluster(
    request: ClusterBench,
    where: OnCluster,
    root: Path,
    workdir: Path,
    progress: Progress,
    on_result: OnLoadRun,
) -> tuple[BenchRecord, KeyboardInterrupt | VpatchError | None]:
    """Make a benchmark on a cluster, and write its record to `workdir`.

    `on_result` gets each point.

    Returns the record, and why it broke off, if it did.

    Raises:
        ClusterError: the cluster is not there, or was lost before anything was measured.
        NoNodeError: a cell fits on no node.
    """
    return _BenchOnCluster(request, workdir, on_result).make(where, root, progress)


class _BenchOnCluster:
    """A benchmark on a cluster, as far as it came."""

    def __init__(self, request: ClusterBench, workdir: Path, on_result: OnLoadRun) -> None:
        self.request, self.workdir, self.on_result = request, workdir, on_result
        self.made = datetime.now(UTC).isoformat(timespec="seconds")
        self.names = side_names(len(request.sides))
        self.datasets = datasets_of(request.plan)
        self.jobs = BenchJobs(
            request.plan, request.sides, self.datasets, workdir / LOGS, self._settle
        )
        self.points: list[LoadRun] = []
        self.models: dict[str, ModelRecord] = {}
        self.machines: dict[str, NodeRecord] = {}
        # Of each side: the nodes that measured it, and the kind of their engine.
        self.nodes: list[dict[str, str]] = [{} for _ in request.sides]
        (workdir / RAW).mkdir()

    def make(
        self, where: OnCluster, root: Path, progress: Progress
    ) -> tuple[BenchRecord, KeyboardInterrupt | VpatchError | None]:
        request = self.request
        tasks = NodeTasks(
            self.jobs.tasks,
            Parcel(self.jobs.files),
            request.plan.models,
            request.digests,
        )
        run = ClusterRun(tasks, where, kept_below(root), progress)
        failure: KeyboardInterrupt | VpatchError | None = None
        try:
            run.make()
        except (KeyboardInterrupt, VpatchError) as error:
            if not self.points:
                raise
            failure = error
        record = self._record(run)
        write_record(self.workdir, record)
        return record, failure

    def _settle(self, task: BenchTask, node: str, files: Mapping[str, bytes] | None) -> None:
        if files is None:
            points = list(lost_runs(task))
        else:
            result = json.loads(files[RESULT])
            self.models |= {
                name: ModelRecord.model_validate(model) for name, model in result["models"].items()
            }
            facts = {"machine": result["machine"], "inherited": result["inherited"]}
            self.machines.setdefault(node, NodeRecord.model_validate(facts))
            self.nodes[task.side][node] = result["engine"]["kind"]
            points = list(runs_of(task, node, files, self.workdir))
        self.points += points
        for point in points:
            self.on_result(self.names[point.side], point)

    def _record(self, run: ClusterRun) -> BenchRecord:
        request, plan = self.request, self.request.plan
        described = {
            name: ModelRecord(
                model=model.checkpoint or f"synthetic: {model.synthetic}", digest=None
            )
            for name, model in plan.models.items()
        }
        versions = dict.fromkeys(side.trees.version for side in request.sides)
        points = sorted(self.points, key=lambda point: (point.repeat, point.side))
        return BenchRecord.model_construct(
            schema_version=SCHEMA_VERSION,
            vpatch=__version__,
            name=request.name,
            made=self.made,
            asked=dict(request.asked),
            client=ClientRecord(vllm=", ".join(versions)),
            models=described | self.models,
            datasets=self.datasets,
            plan=PlanRecord.model_validate(plan.model_dump(mode="json", exclude_none=True)),
            planned=sum(len(visit.loads) for task in self.jobs.tasks for visit in task.visits),
            sides=[self._side(number, run) for number in range(len(request.sides))],
            points=[point_of(point) for point in points],
            machines=self.machines,
        )

    def _side(self, number: int, run: ClusterRun) -> Side:
        side, nodes = self.request.sides[number], self.nodes[number]
        node, image = next(iter(nodes), None), side.trees.image
        if node is None:
            machine = MachineRecord.model_validate(asdict(this_machine()))
            inherited: dict[str, str] = {}
        else:
            machine, inherited = self.machines[node].machine, self.machines[node].inherited
        record = Side(
            name=self.names[number],
            what=side.what,
            machine=machine,
            # A container gets no variable of its node.
            inherited={} if image else inherited,
            digest=side.digest,
            subject=side.subject,
            engine=EngineRecord(
                kind=nodes[node] if node is not None else side.trees.kind or run.kind,
                vllm=side.trees.version,
            ),
            nodes=list(nodes),
        )
        if image is not None:
            record.image = ImageRecord.model_validate(image)
        return record.model_copy(update={"point": dict(side.point)}) if side.point else record
