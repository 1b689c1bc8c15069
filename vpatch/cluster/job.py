"""Jobs for a cluster, and the events of their runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a job leaves in `out`: its result, or why it was refused; and what it printed.
RESULT, REFUSED, LOG = "result.json", "refused.json", "log"


@dataclass(frozen=True)
class ClusterJob:
    """A Python module of vpatch that runs as one process on one node, in a new work folder.

    Attributes:
        name: what people call it.
        module: gets the work folder as its argument: `job.json` is what it is to do, `sent` has
            the parcel, and what it leaves in `out` comes back.
        content: the bytes of `job.json`.
        cpus: how many CPUs of the node are its own.
        gpus: how many GPUs.
        labels: what Ray's labels of the node must be, as Ray's label selectors say it.
        nodes: the ids of the nodes that may run it; None for all that fit otherwise.
        limit: seconds after which it is ended.
    """

    name: str
    module: str
    content: bytes
    cpus: float = 1
    gpus: float = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: frozenset[str] | None = None
    limit: float = 3600.0


@dataclass(frozen=True)
class JobBegun:
    """A job began on a node; `clock` is how many seconds the node's clock is ahead."""

    job: int
    attempt: int
    node: str
    clock: float


@dataclass(frozen=True)
class LogPiece:
    """A job's log grew by these bytes."""

    job: int
    attempt: int
    content: bytes


@dataclass(frozen=True)
class JobLost:
    """An attempt failed. `node` is None if it did not begin; `last` says that no other one follows.

    `files` are those of an attempt that came back and is not to count.
    """

    job: int
    attempt: int
    node: str | None
    why: str
    last: bool
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class JobDone:
    """A job's files came back. Each job is done at most once."""

    job: int
    attempt: int
    node: str
    files: Mapping[str, bytes]


JobEvent = JobBegun | LogPiece | JobLost | JobDone
