"""Ask the nodes of a cluster what they can run, before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.cluster.answers import not_understood
from vpatch.cluster.errors import ClusterError
from vpatch.cluster.job import ClusterJob, JobBegun, JobDone, JobLost
from vpatch.cluster.nodes import NODE_ID
from vpatch.engine.kinds import KINDS
from vpatch.errors import UnavailableError, combine
from vpatch.harness.machine import missing
from vpatch.runs.node_job import Look, LookAnswer, answer_in, refusal_in, text_of
from vpatch.util.plural import counted
from vpatch.util.untrusted import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.cluster.nodes import ClusterNode
    from vpatch.cluster.parcel import Parcel
    from vpatch.cluster.running import RayCluster
    from vpatch.cluster.storage import Storage
    from vpatch.declare.smoke import Model, Needs
    from vpatch.errors import VpatchError
    from vpatch.progress import Progress
    from vpatch.runs.node_image import ImageName

JOB = "vpatch.node"
_LOOK_SECONDS = 3600.0
_CLOCK_SECONDS = 60.0
_ATTEMPTS = 2
# What comes of an answer of another shape than those of vpatch's jobs.
NOT_OF_A_JOB = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class NoNodeError(UnavailableError):
    """No node of the cluster has what a cell needs."""

    code = "cluster.no-node-fits"


@dataclass(frozen=True)
class SeenNode:
    """A node, as Ray knows it, and what it says of itself."""

    node: ClusterNode
    look: LookAnswer


@dataclass(frozen=True)
class WantedNode:
    """What one cell, or more, want of a node.

    Attributes:
        name: the cell, as people call it.
        needs: what the plan says that the cell needs.
        tensor_parallel: the number of GPUs of one engine.
        model: the name of the checkpoint; empty if the cell runs none.
        alone: whether the cell takes all CPUs of a node, unless the needs say how many.
        image: the image that the node runs; None for an engine.
    """

    name: str
    needs: Needs
    tensor_parallel: int
    model: str
    alone: bool = False
    image: ImageName | None = None


@dataclass(frozen=True)
class SeenCluster:
    """The nodes that answered, and the kind of the engine that they run.

    `others` were not asked: by their CPUs, GPUs and labels alone, no cell fits there. `is_free`
    says that no option names the engine: what a cell needs then may.
    """

    nodes: list[SeenNode]
    others: list[ClusterNode]
    engine: str
    kind: str
    is_free: bool = False

    def engine_for(self, wanted: WantedNode) -> str:
        """Return what runs a cell: the name of an image, a kind of engine, or a Python."""
        if wanted.image is not None:
            return wanted.image.name
        needed = wanted.needs.engine
        return str(needed) if self.is_free and needed in KINDS else self.engine

    def kind_for(self, wanted: WantedNode) -> str:
        if wanted.image is not None:
            name = wanted.image.name
            kinds = [one.look.images[name] for one in self.nodes if name in one.look.images]
            return next(iter(kinds), self.kind)
        needed = wanted.needs.engine
        return str(needed) if self.is_free and needed in KINDS else self.kind

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each checkpoint; it is the same on all nodes that have it."""
        looks = [one.look.models.items() for one in self.nodes]
        return {name: digest for models in looks for name, digest in models if digest}

    def fitting(self, wanted: WantedNode) -> list[SeenNode]:
        return [one for one in self.nodes if self.why_not(one, wanted) == ""]

    def why_not(self, one: SeenNode, wanted: WantedNode) -> str:
        """Say why a node cannot take a cell; empty if it can."""
        for name in (_name_of_engine(wanted), "storage", wanted.model):
            if name in one.look.problems:
                return one.look.problems[name]
        kind = self.kind_for(wanted)
        gpus = gpus_of(wanted.needs, wanted.tensor_parallel, kind)
        lacking = missing(wanted.needs, one.look.machine, kind)
        return _too_small(one.node, wanted, gpus) or "; ".join(error.what for error in lacking)


def _name_of_engine(wanted: WantedNode) -> str:
    """Return the name under which a node reports problems with what runs a cell."""
    return "engine" if wanted.image is None else wanted.image.name


def _too_small(node: ClusterNode, wanted: WantedNode, gpus: int) -> str:
    """Say which resources or labels a node lacks in Ray; empty if it has all."""
    cpus, labels = cpus_of(wanted.needs), wanted.needs.labels or {}
    if node.fits(cpus, gpus, labels):
        return ""
    suffix = "".join(f", {key}={value}" for key, value in labels.items())
    return f"Ray has {node.described}; wanted: {cpus:g} CPUs, {gpus:g} GPUs{suffix}"


def cpus_of(needs: Needs) -> float:
    return 1 if needs.cpus is None else needs.cpus


def gpus_of(needs: Needs, tensor_parallel: int, kind: str) -> int:
    """Return how many GPUs of a node a cell has to itself."""
    return needs.gpus if kind == "cpu" else max(needs.gpus, tensor_parallel)


def look_at_cluster(
    cluster: RayCluster,
    parcel: Parcel,
    engine: str | None,
    models: Mapping[str, Model],
    here: Mapping[str, str],
    wanted: Sequence[WantedNode],
    progress: Progress,
    storage: Storage | None = None,
) -> SeenCluster:
    """Ask the nodes what they have; `here` has the digests of checkpoints on this machine.

    `storage` is where they will leave files: it is tried.

    Raises:
        NoNodeError: no node answers, or a cell fits on none.
        UnavailableError: checkpoints differ between nodes.
    """
    everything = cluster.nodes()
    nodes = [n for n in everything if any(not _too_small(n, w, w.needs.gpus) for w in wanted)]
    others = [node for node in everything if node not in nodes]
    if not nodes:
        kind = engine if engine in KINDS else "cpu"
        refuse_unfit(SeenCluster([], others, str(engine), str(kind)), wanted, progress)
    images = {one.image.name: one.image for one in wanted if one.image is not None}
    order = Look(
        engine=engine,
        models=dict(models),
        images=[*images.values()],
        storage=storage.url if storage else None,
    )
    content = text_of(order).encode()
    jobs = [
        ClusterJob(
            f"look at {node.name}", JOB, content, 0, labels={NODE_ID: node.id}, limit=_LOOK_SECONDS
        )
        for node in nodes
    ]
    task = progress.start(f"Looking at {counted(len(nodes), 'node')}")
    seen, failed = [], {}
    for event in cluster.run(parcel, jobs, attempts=_ATTEMPTS):
        node = nodes[event.job]
        if isinstance(event, JobBegun) and abs(event.clock) > _CLOCK_SECONDS:
            ahead = f"{abs(event.clock):.0f} s {'ahead' if event.clock > 0 else 'behind'}"
            progress.note(f"the clock of {node.name} is {ahead}; times in its logs are so, too")
        elif isinstance(event, JobLost) and event.last:
            failed[node.name] = event.why
        elif isinstance(event, JobDone):
            try:
                if (refusal := refusal_in(event.files)) is not None:
                    failed[node.name] = refusal
                else:
                    look = answer_in(event.files, LookAnswer)
                    _try_storage(look, storage)
                    seen.append(SeenNode(node, look))
            except NOT_OF_A_JOB as error:
                failed[node.name] = not_understood("it", error).what
    task.done()
    if not seen:
        lines = "\n".join(f"    {name}: {last_line(why)}" for name, why in failed.items())
        raise NoNodeError(
            f"no node of the cluster can run vpatch:\n{lines}",
            where=cluster.address,
            hint=_HINT,
            code="cluster.no-node-answers",
        )
    for name, why in failed.items():
        progress.note(f"{name} takes no cells: {last_line(why)} (next: {_HINT})")
    kind = engine or ("cuda" if any(one.node.gpus for one in seen) else "cpu")
    kinds = {one.look.engine.kind for one in seen if one.look.engine}
    _refuse_different(models, here, seen)
    return SeenCluster(
        sorted(seen, key=lambda one: one.node.name),
        others,
        kind,
        kind if kind in KINDS else next(iter(kinds), "cpu"),
        is_free=engine is None,
    )


_HINT = "pip install 'vpatch[ray]' in the Python of Ray on each node"


def last_line(text: str) -> str:
    """Return the last line of a text: in a traceback, that is the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else text


def _try_storage(look: LookAnswer, storage: Storage | None) -> None:
    """Read what a node says that it wrote. Raises ValueError if its path leads elsewhere."""
    if storage is not None and "storage" not in look.problems:
        try:
            storage.read(plain_path(look.probe or ""))
        except ClusterError as error:
            look.problems["storage"] = f"{error.what}; the node says that it wrote it"


def refuse_unfit(seen: SeenCluster, wanted: Iterable[WantedNode], progress: Progress) -> None:
    """Refuse what no node can take.

    Raises:
        NoNodeError: some of it fits on no node; the error says of each node why.
    """
    errors: dict[str, VpatchError] = {}
    noted: set[str] = set()
    for one in wanted:
        reasons = {each.node.name: seen.why_not(each, one) for each in seen.nodes}
        fits = not all(reasons.values()) if reasons else False
        gpus = gpus_of(one.needs, one.tensor_parallel, seen.kind_for(one))
        reasons |= {node.name: _too_small(node, one, gpus) for node in seen.others}
        if not fits:
            lines = "\n".join(f"    {node}: {why}" for node, why in sorted(reasons.items()))
            error = NoNodeError(
                f"no node can take the cell {one.name}:\n{lines}",
                hint="add a node that has it, or change the needs of the plan",
            )
            errors.setdefault(lines, error)
        which = {_name_of_engine(one): "", "storage": "", one.model: f" of {one.model}"}
        noted |= {
            f"{each.node.name} takes no cells{cells}: {each.look.problems[name]}"
            for each in seen.nodes
            for name, cells in which.items()
            if name in each.look.problems and fits
        }
    if errors:
        raise combine([*errors.values()])
    for note in sorted(noted):
        progress.note(note)


def _refuse_different(
    models: Iterable[str], here: Mapping[str, str], seen: Iterable[SeenNode]
) -> None:
    for name in models:
        digests = {"this machine": here[name]} if name in here else {}
        digests |= {one.node.name: there for one in seen if (there := one.look.models.get(name))}
        if len(set(digests.values())) > 1:
            lines = "\n".join(f"    {node}: {digest}" for node, digest in digests.items())
            raise UnavailableError(
                f"the checkpoint {name} is not the same on all nodes:\n{lines}",
                hint="give every node the same files",
                code="cluster.model-differs",
            )
