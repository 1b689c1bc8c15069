"""The jobs of a command on a cluster: use results that are kept, and run the other jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from vpatch.cluster.answers import not_understood
from vpatch.cluster.connection import connected
from vpatch.cluster.errors import ClusterError
from vpatch.cluster.job import LOG, RESULT, ClusterJob, JobBegun, JobDone, JobLost, LogPiece
from vpatch.cluster.parcel import Parcel
from vpatch.cluster.storage import Storage
from vpatch.harness.measured import Fault
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import ModelError, locate
from vpatch.runs.cluster_nodes import (
    JOB,
    NOT_OF_A_JOB,
    gpus_of,
    last_line,
    look_at_cluster,
    refuse_unfit,
)
from vpatch.runs.kept_cells import KeptCell, KeptCells, key_of, own_secret
from vpatch.runs.node_job import NodeAnswer, RunAnswer, answer_in, refusal_in, text_of
from vpatch.source.cache import default_cache_folder
from vpatch.util.plural import counted
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.cluster.job import JobEvent
    from vpatch.cluster.running import RayCluster
    from vpatch.progress import Progress, Task
    from vpatch.runs.cluster_nodes import SeenCluster, WantedNode
    from vpatch.runs.cluster_options import OnCluster
    from vpatch.runs.node_job import EngineJob

# A node without an engine makes one first.
AROUND_SECONDS = 3 * 3600.0


@dataclass(kw_only=True)
class NodeTask(ABC):
    """A job of a command, and how far it came.

    Attributes:
        title: the name that people see.
        log: the file of its log.
        wanted: what it wants of a node.
        limit: the seconds that the job itself may take.
        job: what travels to the node. The run adds the engine, the storage and the digest.
        facts: what its result depends on, beside the engine and the checkpoint.
        settled: whether nothing is left to do for it.
        lost: the node and the reason of each attempt that came to nothing.
        is_cell: whether people count it.
    """

    is_cell: ClassVar[bool] = True
    title: str
    log: Path
    wanted: WantedNode
    limit: float
    job: EngineJob
    facts: Mapping[str, JsonValue]
    settled: bool = False
    lost: list[tuple[str | None, str]] = field(default_factory=list)

    @property
    def at_least(self) -> WantedNode:
        """What it wants of a node before the kind of its engine is known."""
        return self.wanted

    def is_idle(self, kind: str) -> bool:  # noqa: ARG002 - most run in any engine
        """Return whether engines of this kind have nothing to do, and report it."""
        return False

    @abstractmethod
    def settle(self, node: str, files: Mapping[str, bytes] | None) -> None:
        """Take the files of the job, or None if it was lost. Its log is already written."""

    def key(self, engine: str, digests: Mapping[str, str]) -> str:
        """Return the key of its result: a digest of all that the result depends on."""
        job = self.job
        facts: dict[str, JsonValue] = {**self.facts, "engine": [engine, job.version]}
        if job.checkpoint is not None:
            synthetic = f"synthetic: {job.checkpoint.synthetic}"
            facts["model"] = digests.get(job.model) or synthetic
        return key_of(facts)

    @property
    def why_lost(self) -> str:
        node, why = self.lost[-1]
        count = counted(len(self.lost), "attempt")
        return f"{count}, the last one on {node or 'no node'}: {last_line(why)}"

    @property
    def fault(self) -> Fault:
        """That all its attempts failed, as a finding."""
        return Fault("lost", self.why_lost, None, tuple(self.lost[-1][1].splitlines()))


@dataclass
class ClusterRun:
    """Runs all jobs of a command.

    Attributes:
        tasks: the jobs.
        files: what travels to each node.
        where: the cluster, and the engine there. A job of an image names its image itself.
        root: the folder of evidence below which results are kept; None to keep none.
        digests: the cache's folder that remembers digests of large files.
        kind: that of the engine, once it is known.
    """

    tasks: Sequence[NodeTask]
    files: Mapping[str, bytes]
    where: OnCluster
    root: Path | None
    progress: Progress
    digests: Path | None = None
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        self.engine = self.where.engine
        self.earlier: KeptCells | None = None
        if self.root is not None:
            self.earlier = KeptCells(self.root, own_secret(default_cache_folder()))
        self.parcel, self.kind = Parcel(self.files), self.engine or ""
        self.shown: Task | None = None
        self.again = 0
        jobs = [task.job for task in self.tasks]
        self.models = {job.model: job.checkpoint for job in jobs if job.checkpoint is not None}

    def make(self) -> None:
        """Run what is not kept.

        Raises:
            ClusterError: the cluster is not there, or was lost.
            NoNodeError: a job fits on no node.
        """
        here = self._digests_here()
        checkpoints = {name for name, model in self.models.items() if model.checkpoint}
        is_image = all(task.wanted.image is not None for task in self.tasks)
        known = (self.engine is not None or is_image) and here.keys() >= checkpoints
        if known and self.where.resume:
            self._take_kept(here)
        if not known or self._pending():
            with connected(self.where.address) as cluster, self._storage() as storage:
                seen = look_at_cluster(
                    cluster,
                    self.parcel,
                    self.engine,
                    self.models,
                    here,
                    [task.at_least for task in self._pending()],
                    self.progress,
                    storage,
                )
                self.engine, self.kind = seen.engine, seen.kind
                if self.where.resume:
                    self._take_kept(seen.digests, seen)
                for task in self._pending():
                    task.settled = task.is_idle(seen.kind)
                self._run(cluster, seen, storage)
        if self.again:
            count = counted(self.again, "cell")
            self.progress.note(f"{count} of an earlier run: the evidence is kept and verifies")

    def _digests_here(self) -> dict[str, str]:
        """The digests of the checkpoints that are on this machine as well."""
        digests = {}
        for name, model in self.models.items():
            try:
                folder = locate(model)
            except ModelError:
                continue  # it is on the nodes alone
            if folder is not None:
                digests[name] = digest_of_checkpoint(folder, self.digests)
        return digests

    def _pending(self) -> list[NodeTask]:
        return [task for task in self.tasks if not task.settled]

    def _take_kept(self, digests: Mapping[str, str], seen: SeenCluster | None = None) -> None:
        if self.earlier is None:
            return
        for task in self._pending():
            wanted = task.wanted
            here = str(self.engine) if wanted.image is None else wanted.image.name
            engine = seen.engine_for(wanted) if seen else here
            cell = self.earlier.find(task.key(engine, digests))
            if cell is not None:
                self.again += task.is_cell
                self._settle(task, cell.node, cell.files)
                if self.kind == self.engine:
                    self.kind = answer_in(cell.files, RunAnswer).engine.kind

    @contextmanager
    def _storage(self) -> Iterator[Storage | None]:
        if self.where.storage is None:
            yield None
            return
        storage = Storage.of_a_run(self.where.storage)
        storage.probe()
        try:
            yield storage
        finally:
            try:
                storage.remove()
            except ClusterError as error:
                # All results are here already.
                self.progress.note(f"{error.what}; remove {redact(storage.url)} yourself")

    def _run(self, cluster: RayCluster, seen: SeenCluster, storage: Storage | None) -> None:
        pending = self._pending()
        if not pending:
            return
        refuse_unfit(seen, [task.wanted for task in pending], self.progress)
        keys = [task.key(seen.engine_for(task.wanted), seen.digests) for task in pending]
        running = cluster.run(
            self.parcel,
            [_job(task, seen, storage) for task in pending],
            attempts=self.where.attempts,
            again=why_again,
            storage=storage,
        )
        with closing(running):
            for event in running:
                self._take(pending[event.job], event, keys[event.job])
        self._show(None)

    def _take(self, task: NodeTask, event: JobEvent, key: str) -> None:
        """Handle one event of a job."""
        log = task.log
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
                    self._settle(task, str(event.node), event.files)
                else:
                    log.touch()
                    task.settled = True
                    task.settle(event.node or "", None)
            case JobDone():
                self._settle(task, event.node, event.files)
                if self.earlier is not None:
                    self.earlier.keep(key, KeptCell(event.node, event.files))

    def _settle(self, task: NodeTask, node: str, files: Mapping[str, bytes]) -> None:
        task.settled = True
        task.log.write_bytes(files.get(LOG, b""))
        try:
            task.settle(node, files)
        except NOT_OF_A_JOB as error:
            raise not_understood(f"{node} ({task.title})", error) from error

    def _show(self, what: str | None) -> None:
        if self.shown is not None:
            self.shown.done()
        self.shown = self.progress.start(what) if what else None


def _job(task: NodeTask, seen: SeenCluster, storage: Storage | None) -> ClusterJob:
    wanted, fitting = task.wanted, [one.node for one in seen.fitting(task.wanted)]
    needs = wanted.needs
    settings = {
        "engine": seen.engine_for(wanted),
        "image": wanted.image,
        "storage": storage.url if storage else None,
        "digest": seen.digests.get(task.job.model),
    }
    alone = min((node.cpus for node in fitting), default=1.0) if wanted.alone else 1.0
    return ClusterJob(
        task.title,
        JOB,
        text_of(task.job.model_copy(update=settings)).encode(),
        alone if needs.cpus is None else needs.cpus,
        gpus_of(needs, wanted.tensor_parallel, seen.kind_for(wanted)),
        needs.labels or {},
        frozenset(node.id for node in fitting),
        AROUND_SECONDS + task.limit,
    )


def why_again(files: Mapping[str, bytes]) -> str | None:
    """Say why a job is worth another attempt elsewhere; None if its result counts.

    Raises:
        ClusterError: the files are not those of a job.
    """
    try:
        refusal = refusal_in(files)
        return (answer_in(files, NodeAnswer).hangs or None) if refusal is None else refusal
    except NOT_OF_A_JOB as error:
        raise not_understood("a node", error) from error
