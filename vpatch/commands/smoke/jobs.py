"""A smoke plan as jobs for a cluster: what each one gets, and what its files mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vpatch.cluster.job import RESULT
from vpatch.commands.smoke.cells import visits
from vpatch.commands.smoke.run import CellRun, NodeRun, log_name
from vpatch.evidence.subject import digest_of_subject
from vpatch.harness.measured import Fault, Measured
from vpatch.harness.wire import from_json, to_json
from vpatch.runs.cluster_nodes import WantedNode
from vpatch.runs.cluster_run import NodeTask
from vpatch.runs.kept_cells import key_of
from vpatch.runs.node_image import name_for_nodes
from vpatch.runs.packed_trees import packed
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.commands.smoke.cells import Cell
    from vpatch.commands.smoke.prove import SmokeRequest
    from vpatch.harness.target import Phase
    from vpatch.runs.cluster_nodes import SeenCluster
    from vpatch.runs.targets import PlannedTrees

# A part of each key. Increase it when the content of a result changes.
_FORMAT = 2

OnSettled = Callable[["SmokeTask", str, "Mapping[str, Any] | None"], None]


@dataclass(kw_only=True)
class SmokeTask(NodeTask):
    """One run of a cell, or, without a cell, the imports of a phase."""

    jobs: SmokeJobs
    phase: Phase
    number: int
    count: int
    round: int
    cell: Cell | None
    run: CellRun | None = None

    @property
    def title(self) -> str:
        where = f"{self.jobs.point}: " if self.jobs.point else ""
        if self.cell is None:
            return f"{where}{self.phase}, imports"
        return f"{where}{self.phase}, {self.number} of {self.count}: {self.cell.name}"

    @property
    def log(self) -> Path:
        if self.cell is None:
            return self.jobs.logs / f"{self.phase}-imports.log"
        return self.jobs.logs / log_name(self.phase, self.number, self.cell)

    @property
    def is_cell(self) -> bool:
        return self.cell is not None

    @property
    def wanted(self) -> WantedNode:
        cell = self.cell or self.jobs.request.cells[0]
        return WantedNode(
            cell.name, cell.needs, cell.tensor_parallel, cell.model, image=self.jobs.image
        )

    @property
    def limit(self) -> float:
        if self.cell is None:
            return 0.0
        timeouts = self.cell.timeouts
        return timeouts.start + timeouts.cell + timeouts.stop

    def key(self, engine: str, digests: Mapping[str, str]) -> str:
        return self.jobs.key(self, engine, digests)

    def message(self, seen: SeenCluster) -> dict[str, Any]:
        return self.jobs.message(self, seen)

    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        self.jobs.on_settled(self, node, files and json.loads(files[RESULT]))


class SmokeJobs:
    """All jobs of a request; `files` are what they need, beside vpatch itself.

    `point` is the name of a point of a matrix, if it is one. `logs` is a folder.
    """

    def __init__(
        self,
        request: SmokeRequest,
        trees: PlannedTrees,
        logs: Path,
        on_settled: OnSettled,
        point: str = "",
    ) -> None:
        self.request, self.version, self.on_settled = request, trees.version, on_settled
        self.logs, self.point, self.installed = logs, point, trees.installed
        self.image = None if trees.image is None else name_for_nodes(trees.image)
        self._trees, self.files = packed(trees.contents, f"trees/{point}" if point else "trees")
        self._digests = {path: digest_of(content) for path, content in sorted(self.files.items())}
        self._changes = [tree.changes for tree in trees.contents]
        used = {cell.model for cell in request.cells}
        self.models = {name: model for name, model in request.models.items() if name in used}
        phases: list[Phase] = ["before", "after"] if request.before else ["after"]
        self.tasks = [task for phase in phases for task in self._tasks(phase)]

    def _tasks(self, phase: Phase) -> list[SmokeTask]:
        planned = list(visits(self.request.cells))
        found = [
            SmokeTask(
                jobs=self, phase=phase, number=number, count=len(planned), round=round_, cell=cell
            )
            for number, (round_, cell) in enumerate(planned, 1)
        ]
        imports = self.request.smoke.imports
        # The phase with the patches also reports the environment.
        if phase == "after" or imports.modules or imports.operators:
            first = SmokeTask(jobs=self, phase=phase, number=0, count=0, round=0, cell=None)
            return [first, *found]
        return found

    @cached_property
    def _subject(self) -> str:
        return digest_of_subject(self.request.subject)

    def digests(self, phase: Phase) -> dict[str, str]:
        """The digests of the files that patches change, the same on every node."""
        if phase == "before":
            return {}
        return {
            path: digest_of(change.after)
            for changes in self._changes
            for path, change in changes.items()
        } | dict(self.installed)

    def key(self, task: SmokeTask, engine: str, digests: Mapping[str, str]) -> str:
        """Return the key of a task's evidence."""
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "phase": task.phase,
            "round": task.round,
            "subject": self._subject,
            "files": self._digests,
            "engine": [engine, self.version],
            "imports": self.request.smoke.imports.model_dump(mode="json"),
        }
        if task.cell is not None:
            model = self.models[task.cell.model]
            facts |= {
                "cell": to_json(task.cell),
                "model": digests.get(task.cell.model) or f"synthetic: {model.synthetic}",
            }
        return key_of(facts)

    def message(self, task: SmokeTask, seen: SeenCluster) -> dict[str, Any]:
        message: dict[str, Any] = {
            "version": self.version,
            "trees": self._trees,
            "phase": task.phase,
        }
        if task.cell is None:
            imports = self.request.smoke.imports.model_dump_json(by_alias=True)
            environment = dict(self.request.cells[0].environment)
            return message | {"do": "imports", "imports": imports, "environment": environment}
        name = task.cell.model
        return message | {
            "do": "cell",
            "cell": to_json(task.cell),
            "model": self.models[name].model_dump(mode="json", by_alias=True),
            "digest": seen.digests.get(name),
        }


def run_of(task: SmokeTask, cell: Cell, node: str, result: Mapping[str, Any], log: Path) -> CellRun:
    """Return a run of a cell from what a node sent."""
    machine = result["machine"]
    hardware = json.dumps([machine["processor"], machine["cores"], machine["gpus"]])
    there = NodeRun(node, hardware, result["digests"], tuple(task.lost))
    return CellRun(cell, log, from_json(Measured, result["measured"]), there=there)


def lost_run(task: SmokeTask, cell: Cell, log: Path) -> CellRun:
    """Return the run of a cell whose attempts all failed: a finding."""
    fault = Fault("lost", task.why_lost, None, tuple(task.lost[-1][1].splitlines()))
    there = NodeRun(task.lost[-1][0] or "none", "", {}, tuple(task.lost))
    return CellRun(cell, log, Measured(fault=fault), there=there)
