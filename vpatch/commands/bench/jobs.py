"""A benchmark as jobs for a cluster: each is all that a side measures of one model.

What is compared with k = 0 then runs on one node, in alternating order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.cluster.job import RESULT
from vpatch.commands.bench.cells import cells_of, schedule, side_names
from vpatch.commands.bench.measure import LoadRun
from vpatch.commands.bench.record import RAW, result_from
from vpatch.evidence.store import LOGS
from vpatch.harness.measured import Fault
from vpatch.runs.cluster_nodes import WantedNode
from vpatch.runs.cluster_run import NodeTask
from vpatch.runs.kept_cells import key_of
from vpatch.runs.node_image import name_for_nodes
from vpatch.runs.packed_trees import packed
from vpatch.util.digest import digest_of
from vpatch.util.home import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bench.cells import ServerRun
    from vpatch.commands.bench.sides import PlannedSide
    from vpatch.declare.bench import Bench
    from vpatch.runs.cluster_nodes import SeenCluster

# A part of each key. Increase it when the content of a result changes.
_FORMAT = 2

OnSettled = Callable[["BenchTask", str, "Mapping[str, bytes] | None"], None]


@dataclass(kw_only=True)
class BenchTask(NodeTask):
    """All that is measured of one model on one side; `visits` are the servers in their order."""

    jobs: BenchJobs
    side: int
    name: str
    model: str
    visits: Sequence[ServerRun]

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.name, self.model)))

    @property
    def log(self) -> Path:
        return self.jobs.logs / f"{self.slug}.log"

    @property
    def slug(self) -> str:
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.title)

    @property
    def wanted(self) -> WantedNode:
        jobs, needs = self.jobs, self.jobs.sides[self.side].needs
        parallel, image = jobs.plan.tensor_parallel, jobs.images[self.side]
        return WantedNode(self.title, needs, parallel, self.model, alone=True, image=image)

    @property
    def limit(self) -> float:
        timeouts = self.jobs.plan.timeouts
        loads = sum(len(visit.loads) + 1 for visit in self.visits)
        return len(self.visits) * (timeouts.start + timeouts.stop) + loads * timeouts.cell

    def key(self, engine: str, digests: Mapping[str, str]) -> str:
        return self.jobs.key(self, engine, digests)

    def message(self, seen: SeenCluster) -> dict[str, Any]:
        return self.jobs.message(self, seen)

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        self.jobs.on_settled(self, node, files)


class BenchJobs:
    """All jobs of a benchmark; `files` are what they need, beside vpatch itself."""

    def __init__(
        self,
        plan: Bench,
        sides: Sequence[PlannedSide],
        datasets: Mapping[str, str],
        logs: Path,
        on_settled: OnSettled,
    ) -> None:
        self.plan, self.sides, self.datasets, self.on_settled = plan, sides, datasets, on_settled
        self.logs = logs
        names = side_names(len(sides))
        shown = [side.trees.image for side in sides]
        self.images = [None if about is None else name_for_nodes(about) for about in shown]
        self.files: dict[str, bytes] = {}
        packs = [packed(side.trees.contents, f"sides/{n}") for n, side in enumerate(sides)]
        self._trees = [trees for trees, _ in packs]
        self._digests = [
            {path: digest_of(content) for path, content in sorted(files.items())}
            for _, files in packs
        ]
        for _, files in packs:
            self.files |= files
        self.files |= dict(self._dataset_files())
        # Of sides that are equal, each is measured by itself.
        identities = [self._identity(number) for number in range(len(sides))]
        self._equal = [identities[:n].count(one) for n, one in enumerate(identities)]
        self.tasks = [
            BenchTask(
                jobs=self,
                side=number,
                name=names[number],
                model=model,
                visits=list(schedule([cells_of(self._plan_of(model))], plan)),
            )
            for number in range(len(sides))
            for model in dict.fromkeys(cells.model for cells in plan.cells)
        ]

    def _dataset_files(self) -> Iterator[tuple[str, bytes]]:
        for number, shape in enumerate(self.plan.shapes):
            if shape.path is not None:
                file = expanded(shape.path)
                yield f"datasets/{number}/{file.name}", file.read_bytes()

    def _identity(self, side: int) -> tuple[object, ...]:
        return self.sides[side].digest, self._digests[side], self.images[side]

    def _plan_of(self, model: str) -> Bench:
        cells = tuple(one for one in self.plan.cells if one.model == model)
        return self.plan.model_copy(
            update={"cells": cells, "models": {model: self.plan.models[model]}}
        )

    def key(self, task: BenchTask, engine: str, digests: Mapping[str, str]) -> str:
        """Return the key of a task's result."""
        model, side = self.plan.models[task.model], self.sides[task.side]
        return key_of(
            {
                "format": _FORMAT,
                "subject": side.digest,
                "equal sides before": self._equal[task.side],
                "files": self._digests[task.side],
                "engine": [engine, side.trees.version],
                "plan": self._plan_of(task.model).model_dump(mode="json"),
                "needs": side.needs.model_dump(mode="json"),
                "datasets": dict(self.datasets),
                "model": digests.get(task.model) or f"synthetic: {model.synthetic}",
            }
        )

    def message(self, task: BenchTask, seen: SeenCluster) -> dict[str, Any]:
        plan = self._plan_of(task.model)
        return {
            "do": "bench",
            "version": self.sides[task.side].trees.version,
            "trees": self._trees[task.side],
            "plan": plan.model_dump(mode="json", by_alias=True, exclude_none=True),
            "model": task.model,
            "digest": seen.digests.get(task.model),
        }


def runs_of(
    task: BenchTask, node: str, files: Mapping[str, bytes], workdir: Path
) -> Iterator[LoadRun]:
    """Yield the points of a job from what a node sent, and write their logs and raw results."""
    for path, content in files.items():
        kind, slash, name = path.partition("/")
        if slash:
            _place(task, workdir, f"{kind}/{name}").write_bytes(content)
    points = iter(json.loads(files[RESULT])["points"])
    for visit in task.visits:
        for load, point in zip(visit.loads, points, strict=False):
            yield LoadRun(
                task.side,
                visit.cell,
                load,
                visit.repeat,
                _place(task, workdir, point["log"]),
                _place(task, workdir, point["raw"]),
                result_from(point),
                node,
            )


def lost_runs(task: BenchTask) -> Iterator[LoadRun]:
    """Yield the points of a job whose attempts all failed."""
    fault = Fault("lost", task.why_lost, None, tuple(task.lost[-1][1].splitlines()))
    node = task.lost[-1][0]
    for visit in task.visits:
        for load in visit.loads:
            none = task.log.with_name("none")
            yield LoadRun(task.side, visit.cell, load, visit.repeat, task.log, none, fault, node)


def _place(task: BenchTask, workdir: Path, path: str | None) -> Path:
    if path is None:
        return workdir / "none"
    kind, _, name = path.partition("/")
    if kind not in {LOGS, RAW} or "/" in name:
        raise ValueError(f"{path!r} is not a log or a raw result")
    return workdir / kind / f"{task.slug}-{name}"
