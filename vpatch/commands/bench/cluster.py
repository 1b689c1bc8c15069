"""The use case `bench --cluster`: what a side measures of a model is a job, and all are one record.

What is compared with k = 0 then runs on one node, in alternating order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.commands.bench.cells import cells_of, schedule, side_names
from vpatch.commands.bench.measure import LoadRun
from vpatch.commands.bench.node import BenchAnswer, BenchJob
from vpatch.commands.bench.record import RAW, point_of, write_record
from vpatch.commands.bench.run import datasets_of
from vpatch.commands.bench.schema import (
    SCHEMA_VERSION,
    BenchRecord,
    ClientRecord,
    MachineRecord,
    ModelRecord,
    NodeRecord,
    PlanRecord,
    Side,
)
from vpatch.commands.bench.sides import tree_records
from vpatch.errors import VpatchError
from vpatch.evidence.records import RunEngine, RunImage
from vpatch.evidence.store import LOGS
from vpatch.harness.machine import this_machine
from vpatch.runs.cluster_nodes import WantedNode
from vpatch.runs.cluster_run import ClusterRun, NodeTask
from vpatch.runs.matrix import slug_of
from vpatch.runs.node_image import name_for_nodes
from vpatch.runs.node_job import answer_in
from vpatch.runs.packed_trees import digests_of, packed
from vpatch.util.home import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.commands.bench.cells import ServerRun
    from vpatch.commands.bench.load_result import LoadResult
    from vpatch.commands.bench.run import OnLoadRun
    from vpatch.commands.bench.sides import PlannedSide
    from vpatch.declare.bench import Bench
    from vpatch.harness.measured import Fault
    from vpatch.progress import Progress
    from vpatch.runs.cluster_options import OnCluster

# A part of each key. Increase it when the content of a result changes.
_FORMAT = 2


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
    bench = BenchOnCluster(request, workdir, on_result)
    failure = None
    run = ClusterRun(bench.tasks, bench.files, where, root, progress, request.digests)
    try:
        run.make()
    except (KeyboardInterrupt, VpatchError) as error:
        if not bench.points:
            raise
        failure = error
    record = bench.record(run)
    write_record(workdir, record)
    return record, failure


@dataclass(kw_only=True)
class BenchTask(NodeTask):
    """All that is measured of one model on one side; `visits` are the servers in their order."""

    of: BenchOnCluster
    side: int
    visits: Sequence[ServerRun]

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        loads = [(visit, load) for visit in self.visits for load in visit.loads]
        if files is None:
            lost, here = (self.log, self.log.with_name("none"), self.fault), self.lost[-1][0]
            results: list[tuple[Path, Path, LoadResult | Fault]] = [lost] * len(loads)
        else:
            # Their logs and raw results.
            for path, content in files.items():
                if "/" in path:
                    self._place(path).write_bytes(content)
            answer, here = answer_in(files, BenchAnswer), node
            results = [(self._place(p.log), self._place(p.raw), p.result) for p in answer.points]
            self.of.take(self.side, node, answer)
        self.of.add(
            LoadRun(self.side, visit.cell, load, visit.repeat, *one, here)
            for (visit, load), one in zip(loads, results, strict=False)
        )

    def _place(self, path: str | None) -> Path:
        workdir = self.log.parents[1]
        if path is None:
            return workdir / "none"
        kind, _, name = path.partition("/")
        if kind not in {LOGS, RAW} or "/" in name:
            raise ValueError(f"{path!r} is not a log or a raw result")
        return workdir / kind / f"{self.log.stem}-{name}"


class BenchOnCluster:
    """A benchmark on a cluster, as far as it came.

    `files` are what its jobs need, beside vpatch itself.
    """

    def __init__(self, request: ClusterBench, workdir: Path, on_result: OnLoadRun) -> None:
        self.request, self.workdir, self.on_result = request, workdir, on_result
        self.begun = datetime.now(UTC).isoformat(timespec="seconds")
        self.names = side_names(len(request.sides))
        self.datasets = datasets_of(request.plan)
        self.files = dict(_dataset_files(request.plan))
        self.tasks = list(self._tasks())
        self.points: list[LoadRun] = []
        self.models: dict[str, ModelRecord] = {}
        self.machines: dict[str, NodeRecord] = {}
        # Of each side: the nodes that measured it, and the kind of their engine.
        self.nodes: list[dict[str, str]] = [{} for _ in request.sides]
        (workdir / RAW).mkdir()

    def _tasks(self) -> Iterator[BenchTask]:
        plan, identities = self.request.plan, []
        for number, side in enumerate(self.request.sides):
            pack, image = packed(side.trees.contents, f"sides/{number}"), side.trees.image
            named, digests = image and name_for_nodes(image), digests_of(pack.files)
            self.files |= pack.files
            identities.append((side.digest, digests, named))
            facts: dict[str, JsonValue] = {
                "format": _FORMAT,
                "subject": side.digest,
                # Of sides that are equal, each is measured by itself.
                "equal sides before": identities.count(identities[-1]) - 1,
                "files": digests,
                "needs": side.needs.model_dump(mode="json"),
                "datasets": dict(self.datasets.items()),
            }
            for model in dict.fromkeys(cells.model for cells in plan.cells):
                cells = tuple(one for one in plan.cells if one.model == model)
                checkpoint = plan.models[model]
                own = plan.model_copy(update={"cells": cells, "models": {model: checkpoint}})
                visits, timeouts = list(schedule([cells_of(own)], plan)), plan.timeouts
                loads = sum(len(visit.loads) + 1 for visit in visits)
                title = " ".join(filter(None, (self.names[number], model)))
                yield BenchTask(
                    title=title,
                    log=self.workdir / LOGS / f"{slug_of(title)}.log",
                    wanted=WantedNode(
                        title, side.needs, plan.tensor_parallel, model, alone=True, image=named
                    ),
                    limit=len(visits) * (timeouts.start + timeouts.stop) + loads * timeouts.cell,
                    job=BenchJob(
                        version=side.trees.version,
                        trees=pack.trees,
                        plan=own,
                        model=model,
                        checkpoint=checkpoint,
                    ),
                    facts={**facts, "plan": own.model_dump(mode="json")},
                    of=self,
                    side=number,
                    visits=visits,
                )

    def take(self, side: int, node: str, answer: BenchAnswer) -> None:
        """Take what a node says of itself, and of the model that it measured."""
        self.models |= answer.models
        facts = NodeRecord.model_validate(answer, from_attributes=True)
        self.machines.setdefault(node, facts)
        self.nodes[side][node] = answer.engine.kind

    def add(self, points: Iterable[LoadRun]) -> None:
        """Add the points of a job, all of them before any is told."""
        before = len(self.points)
        self.points += points
        for point in self.points[before:]:
            self.on_result(self.names[point.side], point)

    def record(self, run: ClusterRun) -> BenchRecord:
        """Return all of it for a record."""
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
            made=self.begun,
            asked=dict(request.asked),
            client=ClientRecord(vllm=", ".join(versions)),
            models=described | self.models,
            datasets=self.datasets,
            plan=PlanRecord.model_validate(plan.model_dump(mode="json", exclude_none=True)),
            planned=sum(len(visit.loads) for task in self.tasks for visit in task.visits),
            sides=[self._side(number, run) for number in range(len(request.sides))],
            points=[point_of(point) for point in points],
            machines=self.machines,
        )

    def _side(self, number: int, run: ClusterRun) -> Side:
        side, nodes = self.request.sides[number], self.nodes[number]
        node, image = next(iter(nodes), None), side.trees.image
        if node is None:
            machine = MachineRecord.model_validate(this_machine(), from_attributes=True)
            inherited: dict[str, str] = {}
        else:
            machine, inherited = self.machines[node].machine, self.machines[node].inherited
        return Side(
            name=self.names[number],
            what=side.what,
            machine=machine,
            # A container gets no variable of its node.
            inherited={} if image else inherited,
            digest=side.digest,
            subject=tree_records(side.subject),
            engine=RunEngine(
                kind=nodes[node] if node is not None else side.trees.kind or run.kind,
                vllm=side.trees.version,
            ),
            image=image and RunImage.model_validate(image),
            nodes=list(nodes),
            point=side.point,
        )


def _dataset_files(plan: Bench) -> Iterator[tuple[str, bytes]]:
    for number, shape in enumerate(plan.shapes):
        if shape.path is not None:
            file = expanded(shape.path)
            yield f"datasets/{number}/{file.name}", file.read_bytes()
