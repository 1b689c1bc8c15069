"""A smoke plan as jobs for a cluster: what each one is told, and what its files mean."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vpatch.app.cluster_nodes import JOB, WantedNode, cpus_of, gpus_of, last_line
from vpatch.app.node_job import REFUSED, RESULT
from vpatch.app.packed_trees import packed
from vpatch.cluster.job import ClusterJob
from vpatch.cluster.parcel import Parcel
from vpatch.evidence.kept_cells import key_of
from vpatch.evidence.subject import digest_of_subject
from vpatch.harness.measured import Fault, Measured
from vpatch.smoke.cells import visits
from vpatch.smoke.run import CellRun, NodeRun, log_name
from vpatch.smoke.wire import measured_from, to_json
from vpatch.util.digest import digest_of
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.app.cluster_nodes import SeenCluster
    from vpatch.app.targets import PlannedTrees
    from vpatch.harness.target import Phase
    from vpatch.smoke.cells import Cell
    from vpatch.smoke.prove import SmokeRequest

# Of what evidence is kept under: it changes with what a result looks like.
_FORMAT = 1
# A node that has no engine makes one first.
_AROUND_SECONDS = 3 * 3600.0


@dataclass
class NodeTask:
    """One run of a cell, or, without a cell, the imports of a phase.

    `lost` has the node and the reason of each attempt that came to nothing.
    """

    phase: Phase
    number: int
    count: int
    round: int
    cell: Cell | None
    settled: bool = False
    run: CellRun | None = None
    lost: list[tuple[str | None, str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        if self.cell is None:
            return f"{self.phase}, imports"
        return f"{self.phase}, {self.number} of {self.count}: {self.cell.name}"

    @property
    def log(self) -> str:
        if self.cell is None:
            return f"{self.phase}-imports.log"
        return log_name(self.phase, self.number, self.cell)


class SmokeJobs:
    """All jobs of a request."""

    def __init__(self, order: SmokeRequest, trees: PlannedTrees) -> None:
        self.order, self.version = order, trees.version
        self.told, files = packed(trees.contents)
        self.parcel = Parcel(files)
        self._files = {path: digest_of(content) for path, content in sorted(files.items())}
        self._changes = [tree.changes for tree in trees.contents]
        used = {cell.model for cell in order.cells}
        self.models = {name: model for name, model in order.models.items() if name in used}
        phases: list[Phase] = ["before", "after"] if order.before else ["after"]
        self.tasks = [task for phase in phases for task in self._tasks(phase)]

    def _tasks(self, phase: Phase) -> list[NodeTask]:
        planned = list(visits(self.order.cells))
        cells = [
            NodeTask(phase, number, len(planned), round_, cell)
            for number, (round_, cell) in enumerate(planned, 1)
        ]
        imports = self.order.smoke.imports
        # The phase with the patches tells of the environment as well.
        asked = phase == "after" or imports.modules or imports.operators
        return [NodeTask(phase, 0, 0, 0, None), *cells] if asked else cells

    @cached_property
    def _subject(self) -> str:
        return digest_of_subject(self.order.subject)

    def digests(self, phase: Phase) -> dict[str, str]:
        """The digests of the files that are laid over, wherever a cell runs."""
        if phase == "before":
            return {}
        return {
            path: digest_of(change.after)
            for changes in self._changes
            for path, change in changes.items()
        }

    def key(self, task: NodeTask, engine: str, digests: Mapping[str, str]) -> str:
        """What the evidence of a task is kept under."""
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "phase": task.phase,
            "round": task.round,
            "subject": self._subject,
            "files": self._files,
            "engine": [engine, self.version],
            "imports": self.order.smoke.imports.model_dump(mode="json"),
        }
        if task.cell is not None:
            model = self.models[task.cell.model]
            facts |= {
                "cell": to_json(task.cell),
                "model": digests.get(task.cell.model) or f"synthetic: {model.synthetic}",
            }
        return key_of(facts)

    def wanted(self, task: NodeTask) -> WantedNode:
        cell = task.cell or self.order.cells[0]
        return WantedNode(cell.name, cell.needs, cell.tensor_parallel, cell.model)

    def job(self, task: NodeTask, seen: SeenCluster) -> ClusterJob:
        wanted = self.wanted(task)
        needs, model = wanted.needs, wanted.model
        told: dict[str, Any] = {
            "engine": seen.engine,
            "version": self.version,
            "trees": self.told,
            "phase": task.phase,
        }
        if task.cell is None:
            imports = self.order.smoke.imports.model_dump_json(by_alias=True)
            environment = dict(self.order.cells[0].environment)
            told |= {"do": "imports", "imports": imports, "environment": environment}
            limit = _AROUND_SECONDS
        else:
            timeouts = task.cell.timeouts
            declared = self.models[model].model_dump(mode="json", by_alias=True)
            told |= {"do": "cell", "cell": to_json(task.cell), "model": declared}
            told["digest"] = seen.digests.get(model)
            limit = _AROUND_SECONDS + timeouts.start + timeouts.cell + timeouts.stop
        return ClusterJob(
            task.title,
            JOB,
            json.dumps(told).encode(),
            cpus_of(needs),
            gpus_of(needs, wanted.tensor_parallel, seen.kind),
            needs.labels or {},
            frozenset(one.node.id for one in seen.fitting(wanted)),
            limit,
        )

    @staticmethod
    def why_again(files: Mapping[str, bytes]) -> str | None:
        """Say why a job is worth another attempt elsewhere; None if its result counts."""
        if REFUSED in files:
            return str(json.loads(files[REFUSED])["what"])
        hangs = json.loads(files[RESULT]).get("hangs")
        return str(hangs) if hangs else None


def run_of(task: NodeTask, cell: Cell, node: str, result: Mapping[str, Any], log: Path) -> CellRun:
    """Return a run of a cell from what a node sent."""
    machine = result["machine"]
    hardware = json.dumps([machine["processor"], machine["cores"], machine["gpus"]])
    there = NodeRun(node, hardware, result["digests"], tuple(task.lost))
    return CellRun(cell, log, measured_from(result["measured"]), there=there)


def lost_run(task: NodeTask, cell: Cell, log: Path) -> CellRun:
    """Return the run of a cell that no attempt came back from: a finding."""
    fault = Fault("lost", why_lost(task), None, tuple(task.lost[-1][1].splitlines()))
    there = NodeRun(task.lost[-1][0] or "none", "", {}, tuple(task.lost))
    return CellRun(cell, log, Measured(fault=fault), there=there)


def why_lost(task: NodeTask) -> str:
    node, why = task.lost[-1]
    count = counted(len(task.lost), "attempt")
    return f"{count}, the last one on {node or 'no node'}: {last_line(why)}"
