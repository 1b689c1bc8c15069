"""Run jobs on the nodes of a cluster: each once, and again elsewhere if its node is lost."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.cluster import on_node
from vpatch.cluster.answers import Begun, files_from, letters_from
from vpatch.cluster.errors import ClusterError
from vpatch.cluster.job import JobBegun, JobDone, JobLost, LogPiece
from vpatch.cluster.nodes import LivingNodes, nodes_from

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from vpatch.cluster.job import ClusterJob, JobEvent
    from vpatch.cluster.nodes import ClusterNode
    from vpatch.cluster.parcel import Parcel
    from vpatch.cluster.storage import Storage

_WAIT_SECONDS = 0.5
# The pause between two looks while no job runs.
_IDLE_SECONDS = 0.1
_LOOK_SECONDS = 5.0
# A worker sends a message every second.
_SILENT_SECONDS = 180.0
# The guard of a job takes up to two minutes to end what does not end by itself.
_CANCEL_SECONDS = 150.0
# A node may be started again, or added.
_NOWHERE_SECONDS = 60.0


@dataclass
class _JobAttempt:
    """One attempt at a job. `heard` is the time of its last message; `node` is where it began."""

    job: int
    number: int
    ref: Any
    heard: float
    id: str
    node: str | None = None


class RayCluster:
    """A cluster that this process is connected to."""

    def __init__(self, address: str) -> None:
        import ray  # noqa: PLC0415 - of the extra `ray`

        self.ray, self.address = ray, address
        self._mailbox: Any = None
        self._sent: dict[str, Any] = {}

    def nodes(self) -> list[ClusterNode]:
        return nodes_from(self.ray.nodes())

    @property
    def mailbox(self) -> Any:
        """The actor that gets the messages of jobs, on the node that this process uses."""
        from ray.util.scheduling_strategies import (  # noqa: PLC0415 - as above
            NodeAffinitySchedulingStrategy,
        )

        if self._mailbox is None:
            # The workers may have no vpatch.
            self.ray.cloudpickle.register_pickle_by_value(on_node)
            here = self.ray.get_runtime_context().get_node_id()
            options = {
                "num_cpus": 0,
                "max_restarts": -1,
                "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=True),
            }
            self._mailbox = self.ray.remote(on_node.Mailbox).options(**options).remote()
        return self._mailbox

    def send(self, parcel: Parcel) -> Any:
        """Put a parcel into the object store, once."""
        if parcel.digest not in self._sent:
            errors = self.ray.exceptions
            try:
                self._sent[parcel.digest] = self.ray.put(parcel.packed)
            except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
                raise ClusterError(
                    f"the object store has no room for {len(parcel.packed) / 1e6:.1f} MB",
                    where=self.address,
                    hint="free space in Ray's spill folder, or start the nodes with a larger "
                    "--object-store-memory",
                    code="cluster.store-full",
                ) from error
        return self._sent[parcel.digest]

    def close(self) -> None:
        """Free the object store, and end the actor."""
        self._sent.clear()
        if self._mailbox is not None:
            self.ray.kill(self._mailbox)

    def run(
        self,
        parcel: Parcel,
        jobs: Sequence[ClusterJob],
        *,
        attempts: int = 1,
        again: Callable[[Mapping[str, bytes]], str | None] | None = None,
        storage: Storage | None = None,
    ) -> Generator[JobEvent]:
        """Run each job until it is done or has failed `attempts` times; yield what happens.

        `again` is given the files of a job and says why they are not to count, if so. `storage` is
        where jobs leave large files. To close the iterator cancels what runs, and waits for its
        end.

        Raises:
            ClusterError: the cluster is gone, or cannot take the parcel.
        """
        running = _JobRun(self, parcel, jobs, attempts, again, storage)
        try:
            yield from running.events()
        finally:
            running.close()


@dataclass
class _JobRun:
    """Jobs of one call, as Ray tasks. Ray decides where each runs and when."""

    cluster: RayCluster
    parcel: Parcel
    jobs: Sequence[ClusterJob]
    most: int
    again: Callable[[Mapping[str, bytes]], str | None] | None
    storage: Storage | None = None

    def __post_init__(self) -> None:
        self.ray, self.mailbox = self.cluster.ray, self.cluster.mailbox
        self.task = self.ray.remote(on_node.run_job)
        self.sent = self.cluster.send(self.parcel)
        self._look()
        self.tried: dict[int, set[str]] = defaultdict(set)
        self.nowhere: dict[int, float] = {}
        self.open: dict[str, _JobAttempt] = {}
        self.of_ref: dict[Any, str] = {}
        # Attempts that began. The others wait for a node.
        self.begun: set[Any] = set()

    def events(self) -> Iterator[JobEvent]:
        for number in range(len(self.jobs)):
            self._submit(number, 1)
        while self.open:
            # Ray needs time for each reference, and thousands may wait for a node.
            due = time.monotonic() - self.looked >= _LOOK_SECONDS
            refs = list(self.of_ref if due else self.begun)
            ready = self._first_of(refs)
            # Read messages first: those of a job come before its result.
            yield from self._messages()
            if ready:
                ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
            for ref in ready:
                yield from self._finish(self.open[self.of_ref[ref]])
            if due:
                yield from self._give_up()

    def _first_of(self, refs: list[Any]) -> list[Any]:
        if not refs:
            time.sleep(_IDLE_SECONDS)
            return []
        ready, _ = self.ray.wait(refs, num_returns=1, timeout=_WAIT_SECONDS)
        return list(ready)

    def _submit(self, job: int, number: int) -> None:
        declared = self.jobs[job]
        labels = self.nodes.labels(declared, self.tried[job])
        attempt = uuid.uuid4().hex
        order: on_node.JobOrder = {
            "attempt": attempt,
            "digest": self.parcel.digest,
            "module": declared.module,
            "job": declared.content,
            "limit": declared.limit,
        }
        ref = self.task.options(
            name=declared.name,
            num_cpus=declared.cpus,
            num_gpus=declared.gpus,
            label_selector=labels or None,
            # Ray would repeat a task without a word, so vpatch counts attempts itself.
            max_retries=0,
        ).remote(self.sent, order, self.mailbox)
        self.open[attempt] = _JobAttempt(job, number, ref, time.monotonic(), attempt)
        self.of_ref[ref] = attempt

    def _messages(self) -> Iterator[JobEvent]:
        try:
            messages = self.ray.get(self.mailbox.take.remote(), timeout=_SILENT_SECONDS)
        except self.ray.exceptions.RayActorError:
            return  # its node was lost, and Ray starts it again
        except self.ray.exceptions.RayError as error:
            raise ClusterError(
                f"the cluster does not answer any more: {error}",
                where=self.cluster.address,
                hint="start the cluster again, then run the command again with --resume",
                code="cluster.lost",
            ) from error
        now = time.monotonic()
        for name, content in letters_from(messages):
            attempt = self.open.get(name)
            if attempt is None:
                continue  # it was given up
            attempt.heard = now
            match content:
                case Begun():
                    attempt.node = content.node
                    self.begun.add(attempt.ref)
                    ahead = content.clock - time.time()
                    place = self._name(content.node, content.host)
                    yield JobBegun(attempt.job, attempt.number, place, ahead)
                case bytes():
                    yield LogPiece(attempt.job, attempt.number, content)

    def _name(self, node: str | None, host: str) -> str:
        return self.nodes.names.get(node or "", host)

    def _forget(self, attempt: _JobAttempt) -> None:
        self.of_ref.pop(attempt.ref, None)
        self.begun.discard(attempt.ref)
        self.open.pop(attempt.id, None)

    def _finish(self, attempt: _JobAttempt) -> Iterator[JobEvent]:
        try:
            files = files_from(self.ray.get(attempt.ref, timeout=_SILENT_SECONDS))
            files = self.storage.take(files) if self.storage else files
            why = self.again(files) if self.again else None
        except ClusterError as error:
            yield from self._lose(attempt, error.what)
            return
        except self.ray.exceptions.RayError as error:
            yield from self._lose(attempt, _reason(error))
            return
        if why is not None:
            yield from self._lose(attempt, why, files)
            return
        self._forget(attempt)
        name = self._name(attempt.node, "a node")
        yield JobDone(attempt.job, attempt.number, name, files)

    def _lose(
        self, attempt: _JobAttempt, why: str, files: Mapping[str, bytes] | None = None
    ) -> Iterator[JobEvent]:
        self._forget(attempt)
        node = self._name(attempt.node, "?") if attempt.node else None
        last = attempt.number >= self.most
        yield JobLost(attempt.job, attempt.number, node, why, last, files or {})
        if attempt.node:
            self.tried[attempt.job].add(attempt.node)
        if not last:
            self._look()
            self._submit(attempt.job, attempt.number + 1)

    def _look(self) -> None:
        self.nodes, self.looked = LivingNodes(self.cluster.nodes()), time.monotonic()

    def _give_up(self) -> Iterator[JobEvent]:
        """Give up attempts that are silent, and attempts that no living node can take."""
        # Fetching files may have taken long. Read the messages that came meanwhile.
        yield from self._messages()
        now = time.monotonic()
        self._look()
        for attempt in list(self.open.values()):
            if attempt.node is not None:
                if now - attempt.heard > _SILENT_SECONDS:
                    self.mailbox.end.remote([attempt.id])
                    why = f"nothing was heard of it for {_SILENT_SECONDS:g} s"
                    yield from self._lose(attempt, why)
            elif self.nodes.fitting(self.jobs[attempt.job]):
                self.nowhere.pop(attempt.job, None)
            elif now - self.nowhere.setdefault(attempt.job, now) > _NOWHERE_SECONDS:
                self.mailbox.end.remote([attempt.id])
                attempt.number = self.most
                yield from self._lose(attempt, "no node is left that fits")

    def close(self) -> None:
        """Cancel what runs, and wait until its processes ended."""
        if not self.open:
            return
        self.mailbox.end.remote(list(self.open))
        for _ in self._messages():
            pass  # what began until now is waited for; what begins from now on ends at once
        if self.begun:
            refs = list(self.begun)
            self.ray.wait(refs, num_returns=len(refs), timeout=_CANCEL_SECONDS)


def _reason(error: Exception) -> str:
    """Return the part of Ray's message that names the reason, without the traceback."""
    cause = getattr(error, "cause", None)
    text = str(cause if cause is not None else error)
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:40]) or type(error).__name__
