"""The nodes of a cluster: their names, what they have, and which of them fit."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from vpatch.cluster.job import ClusterJob

NODE_ID = "ray.io/node-id"
_SET = re.compile(r"in\((.*)\)")


@dataclass(frozen=True)
class ClusterNode:
    """A node that is alive. `name` is its host, with a part of the id if several have that host."""

    id: str
    name: str
    cpus: float
    gpus: float
    labels: Mapping[str, str]

    def fits(self, cpus: float, gpus: float, labels: Mapping[str, str]) -> bool:
        """Return whether the node has these resources and labels, if nothing else runs there."""
        enough = self.cpus >= cpus and self.gpus >= gpus
        return enough and all(_matches(self.labels.get(k), v) for k, v in labels.items())

    @property
    def described(self) -> str:
        labels = [f"{key}={value}" for key, value in self.labels.items() if key != NODE_ID]
        return ", ".join([self.name, f"{self.cpus:g} CPUs", f"{self.gpus:g} GPUs", *labels])


class LivingNodes:
    """The nodes of a cluster at one moment.

    What was found for a job is kept for the jobs that ask for the same: there may be thousands of
    jobs and of nodes.
    """

    def __init__(self, nodes: Sequence[ClusterNode]) -> None:
        self.names = {node.id: node.name for node in nodes}
        self._nodes = nodes
        self._fitting: dict[object, list[ClusterNode]] = {}
        self._selectors: dict[object, dict[str, str]] = {}

    def fitting(self, job: ClusterJob) -> Sequence[ClusterNode]:
        """Return the nodes that a job may run on, if nothing else runs there."""
        key = _needs(job)
        if key not in self._fitting:
            ids = job.nodes
            self._fitting[key] = [n for n in self._able(job) if ids is None or n.id in ids]
        return self._fitting[key]

    def labels(self, job: ClusterJob, tried: Collection[str]) -> dict[str, str]:
        """Return the labels to ask for. They exclude the nodes in `tried`, if another one fits."""
        key = (_needs(job), frozenset(tried))
        if key not in self._selectors:
            fitting = self.fitting(job)
            chosen = [node for node in fitting if node.id not in tried] or fitting
            self._selectors[key] = selector(self._able(job), chosen) if chosen else {}
        return {**job.labels, **self._selectors[key]}

    def _able(self, job: ClusterJob) -> list[ClusterNode]:
        return [node for node in self._nodes if node.fits(job.cpus, job.gpus, job.labels)]


def _needs(job: ClusterJob) -> tuple[object, ...]:
    return job.cpus, job.gpus, frozenset(job.labels.items()), job.nodes


def nodes_from(entries: Iterable[Mapping[str, Any]]) -> list[ClusterNode]:
    """Return the nodes that are alive, from the result of ray.nodes()."""
    living = [node for node in entries if node["Alive"]]
    hosts = Counter(node["NodeManagerHostname"] for node in living)
    nodes = []
    for node in living:
        host, resources = node["NodeManagerHostname"], node["Resources"]
        name = host if hosts[host] == 1 else f"{host}-{node['NodeID'][:6]}"
        cpus, gpus = (resources.get(kind, 0.0) for kind in ("CPU", "GPU"))
        nodes.append(ClusterNode(node["NodeID"], name, cpus, gpus, dict(node["Labels"])))
    return sorted(nodes, key=lambda node: node.name)


def selector(fitting: Sequence[ClusterNode], chosen: Sequence[ClusterNode]) -> dict[str, str]:
    """Return a label selector for some of the nodes that fit; empty if all of them are chosen."""
    ids = {node.id for node in chosen}
    others = sorted(node.id for node in fitting if node.id not in ids)
    if not others:
        return {}
    # Take the shorter form: each task carries it.
    if len(others) < len(ids):
        return {NODE_ID: f"!in({', '.join(others)})"}
    return {NODE_ID: f"in({', '.join(sorted(ids))})"}


def _matches(value: str | None, condition: str) -> bool:
    """Return whether a label matches one of Ray's label selectors."""
    wanted = condition.removeprefix("!")
    group = _SET.fullmatch(wanted)
    values = {part.strip() for part in group[1].split(",")} if group else {wanted}
    return (value in values) != condition.startswith("!")
