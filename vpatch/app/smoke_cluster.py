"""The use case `smoke --on`: each run of a cell is a job of a cluster, and all are one record."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vpatch.app.cluster_nodes import last_line, look_at_cluster, refuse_unfit
from vpatch.app.node_job import LOG, RESULT
from vpatch.app.smoke_jobs import SmokeJobs, lost_run, run_of, why_lost
from vpatch.cluster.connection import connected
from vpatch.cluster.job import JobBegun, JobDone, JobLost, LogPiece
from vpatch.evidence.kept_cells import KeptCell, KeptCells
from vpatch.evidence.store import ENVIRONMENT, LOGS, write_evidence
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import ModelError, PreparedModel, acceptance_of, locate
from vpatch.smoke.checks import Check
from vpatch.smoke.record import SmokeRun, record_of
from vpatch.smoke.run import CellVerdicts
from vpatch.smoke.wire import machine_from
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.app.cluster_nodes import SeenCluster
    from vpatch.app.smoke_jobs import NodeTask
    from vpatch.app.targets import PlannedTrees
    from vpatch.cluster.job import JobEvent
    from vpatch.cluster.running import RayCluster
    from vpatch.harness.target import Phase
    from vpatch.progress import Progress, Task
    from vpatch.smoke.prove import OnResult, SmokeRequest
    from vpatch.smoke.run import CellResult


@dataclass(frozen=True)
class ClusterOptions:
    """Where cells run: `on` is the address. `attempts` is how often each cell is tried.

    With `resume`, cells whose evidence is kept are not run again.
    """

    on: str
    attempts: int = 3
    resume: bool = False


@dataclass(frozen=True)
class ClusterTarget:
    """What the engines of a cluster are; see `ExecutionTarget`."""

    kind: str
    version: str
    image: None = None


def run_smoke_on_cluster(
    order: SmokeRequest,
    trees: PlannedTrees,
    options: ClusterOptions,
    root: Path,
    workdir: Path,
    progress: Progress,
    tell: OnResult,
) -> dict[str, Any]:
    """Run a request on a cluster, and write evidence to `workdir`; `tell` gets what was found.

    Raises:
        ClusterError: the cluster is not there, or was lost.
        NoNodeError: a cell fits on no node.
    """
    jobs = SmokeJobs(order, trees)
    run = _ClusterSmoke(order, jobs, options, KeptCells(root), workdir, progress, tell)
    run.make()
    target = ClusterTarget(run.kind, trees.version)
    record = record_of(run.found(target))
    write_evidence(workdir, record)
    return record


class _ClusterSmoke:
    """A smoke run on a cluster, as far as it came."""

    def __init__(
        self,
        order: SmokeRequest,
        jobs: SmokeJobs,
        options: ClusterOptions,
        kept: KeptCells,
        workdir: Path,
        progress: Progress,
        tell: OnResult,
    ) -> None:
        self.order, self.jobs, self.options, self.kept = order, jobs, options, kept
        self.workdir, self.progress, self.tell = workdir, progress, tell
        self.begun = datetime.now(UTC).isoformat(timespec="seconds")
        self.engine: str | None = order.asked["engine"]
        self.kind = self.engine or ""
        self.prepared: dict[str, PreparedModel] = {}
        self.machines: dict[str, dict[str, Any]] = {}
        self.imports: dict[Phase, Sequence[Check]] = {}
        self.results: list[CellResult] = []
        self.verdicts: dict[Phase, CellVerdicts] = {}
        self.shown: Task | None = None
        self.again = 0

    def make(self) -> None:
        """Run what is not kept."""
        here = self._digests_here()
        known = self.engine is not None and here.keys() >= self._checkpoints()
        if known and self.options.resume:
            self._take_kept(here)
        if not known or self._pending():
            with connected(self.options.on) as cluster:
                seen = look_at_cluster(
                    cluster,
                    self.jobs.parcel,
                    self.engine,
                    self.jobs.models,
                    here,
                    [self.jobs.wanted(task) for task in self._pending()],
                    self.progress,
                )
                self.engine, self.kind = seen.engine, seen.kind
                if self.options.resume:
                    self._take_kept(seen.digests)
                self._run(cluster, seen)
        if self.again:
            kept = counted(self.again, "cell")
            self.progress.note(f"{kept} of an earlier run: the evidence is kept and verifies")

    def _checkpoints(self) -> set[str]:
        return {name for name, model in self.jobs.models.items() if model.checkpoint}

    def _digests_here(self) -> dict[str, str]:
        """The digests of the checkpoints that are on this machine as well."""
        found = {}
        for name in self._checkpoints():
            try:
                folder = locate(self.jobs.models[name])
            except ModelError:
                continue  # it is on the nodes alone
            if folder is not None:
                found[name] = digest_of_checkpoint(folder, self.order.digests)
        return found

    def _pending(self) -> list[NodeTask]:
        return [task for task in self.jobs.tasks if not task.settled]

    def _take_kept(self, digests: Mapping[str, str]) -> None:
        for task in self._pending():
            found = self.kept.find(self.jobs.key(task, str(self.engine), digests))
            if found is not None:
                self.again += task.cell is not None
                self._log(task).write_bytes(found.log)
                self._settle(task, found.node, found.result)
                if self.kind == self.engine:
                    self.kind = found.result["engine"]["kind"]

    def _run(self, cluster: RayCluster, seen: SeenCluster) -> None:
        pending = self._pending()
        refuse_unfit(seen, [self.jobs.wanted(task) for task in pending], self.progress)
        planned = [self.jobs.job(task, seen) for task in pending]

        keys = [self.jobs.key(task, seen.engine, seen.digests) for task in pending]
        running = cluster.run(
            self.jobs.parcel,
            planned,
            attempts=self.options.attempts,
            again=self.jobs.why_again,
        )
        with closing(running):
            for event in running:
                self._take(pending[event.job], event, keys[event.job])
        self._show(None)

    def _take(self, task: NodeTask, event: JobEvent, key: str) -> None:
        """Take note of what happened to a job."""
        log = self._log(task)
        match event:
            case JobBegun():
                attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
                self._show(f"{task.title} on {event.node}{attempt}")
            case LogPiece():
                with log.open("ab") as file:
                    file.write(event.content)
            case JobLost():
                task.lost.append((event.node, event.why))
                where = event.node or "the cluster"
                self.progress.note(f"{task.title} was lost on {where}: {last_line(event.why)}")
                if not event.last:
                    if log.is_file():
                        log.rename(log.with_suffix(f".attempt-{event.attempt}.log"))
                elif RESULT in event.files:
                    log.write_bytes(event.files.get(LOG, b""))
                    self._settle(task, str(event.node), json.loads(event.files[RESULT]))
                else:
                    log.touch()
                    self._settle(task, event.node or "", None)
            case JobDone():
                log.write_bytes(event.files.get(LOG, b""))
                result = json.loads(event.files[RESULT])
                self.kept.keep(key, KeptCell(event.node, result, log.read_bytes()))
                self._settle(task, event.node, result)

    def _settle(self, task: NodeTask, node: str, result: Mapping[str, Any] | None) -> None:
        """Take a job's result, and tell what can be said now; None of a job that was lost."""
        task.settled = True
        if result is not None:
            facts = {"machine": result["machine"], "inherited": result["inherited"]}
            self.machines.setdefault(node, facts)
        if task.cell is None:
            self._settle_imports(task, node, result)
            return
        if result is None:
            task.run = lost_run(task, task.cell, self._log(task))
        else:
            name, model = task.cell.model, result["model"]
            known = model["acceptance"]
            self.prepared[name] = PreparedModel(
                name, self.workdir, model["described"], model["digest"], known
            )
            task.run = run_of(task, task.cell, node, result, self._log(task))
        self._judge(task.phase)

    def _settle_imports(self, task: NodeTask, node: str, result: Mapping[str, Any] | None) -> None:
        if result is not None:
            checks = [Check(*one) for one in result["checks"]]
            environment = result.get("environment")
            if environment is not None:
                (self.workdir / ENVIRONMENT).write_text(environment, encoding="utf-8")
        else:
            checks = [Check("modules", "fail", reason=why_lost(task))]
        self.imports[task.phase] = checks
        for check in checks:
            self.tell(task.phase, f"{check.name} on {node}", [check])

    def _judge(self, phase: Phase) -> None:
        tasks = [task for task in self.jobs.tasks if task.phase == phase and task.cell]
        later = [task.cell for task in tasks if task.run is None and task.cell]
        self._verdicts(phase).look([task.run for task in tasks if task.run], later)

    def _verdicts(self, phase: Phase) -> CellVerdicts:
        if phase not in self.verdicts:
            acceptance = {name: acceptance_of(one) for name, one in self.jobs.models.items()}
            self.verdicts[phase] = CellVerdicts(
                phase, self.order.cells, self.jobs.digests(phase), acceptance, self._told
            )
        return self.verdicts[phase]

    def _told(self, result: CellResult) -> None:
        nodes = dict.fromkeys(run.there.node for run in result.visits if run.there)
        self.results.append(result)
        where = f" on {', '.join(nodes)}" if nodes else ""
        self.tell(result.phase, f"{result.cell.name}{where}", result.checks)

    def _log(self, task: NodeTask) -> Path:
        return self.workdir / LOGS / task.log

    def _show(self, what: str | None) -> None:
        if self.shown is not None:
            self.shown.done()
        self.shown = self.progress.start(what) if what else None

    def found(self, target: ClusterTarget) -> SmokeRun:
        """Return all of it for a record."""
        cells = [task.run.there for task in self.jobs.tasks if task.run and task.run.there]
        first = next((one.node for one in cells if one.node in self.machines), None)
        machine = machine_from(self.machines[first]["machine"]) if first else self.order.machine
        order = self.order
        return SmokeRun(
            name=order.name,
            made=self.begun,
            asked={**order.asked, "engine": self.engine},
            subject=order.subject,
            plan=order.smoke,
            target=target,
            machine=machine,
            checkpoints=self.prepared,
            imports=self.imports,
            results=sorted(self.results, key=self._place),
            patches=order.patches,
            machines=self.machines,
        )

    def _place(self, result: CellResult) -> tuple[bool, int]:
        return result.phase == "after", self.order.cells.index(result.cell)
