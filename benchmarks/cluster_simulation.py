"""What cells cost the driver of a cluster: many cells that sleep, on local nodes.

python -m benchmarks.cluster_simulation --cells 2000 --nodes 8
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray._private import internal_api

from tests.cluster.local_cluster import local_cluster
from vpatch.cluster.connection import connected
from vpatch.cluster.job import ClusterJob, JobBegun, JobDone, JobLost
from vpatch.cluster.parcel import Parcel

if TYPE_CHECKING:
    from vpatch.cluster.running import RayCluster

# A cell without vpatch or an engine: what it costs is what the cluster costs.
SLEEPER = b"""
import sys, time
from pathlib import Path
out = Path(sys.argv[1], "out")
(out / "log").write_text("a line of a log\\n" * 60)
time.sleep(float(Path(sys.argv[1], "job.json").read_text()))
(out / "result.json").write_text("x" * 12_000)
"""
_LOOK_CELLS = 50


def cpu_seconds() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


@dataclass
class Seen:
    """What came of the cells. `stored` is the most that the object stores of all nodes had."""

    done: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    begun: int = 0
    ended: int = 0
    lost: int = 0
    came: int = 0
    stored: int = 0

    def take(self, event: Any) -> None:
        self.begun += isinstance(event, JobBegun)
        self.lost += isinstance(event, JobLost)
        if isinstance(event, JobDone):
            self.ended += 1
            self.done.add(event.job)
            self.nodes.add(event.node)
            self.came += sum(map(len, event.files.values()))
            if self.ended % _LOOK_CELLS == 0:
                self.stored = max(self.stored, bytes_stored())
                sys.stderr.write(f"{self.ended} cells, {cpu_seconds():.1f} s of CPU\n")


def bytes_stored() -> int:
    state = internal_api.get_state_from_address(ray.get_runtime_context().gcs_address)
    return int(internal_api.get_memory_info_reply(state).store_stats.object_store_bytes_used)


def run(opened: RayCluster, cells: int, seconds: float) -> None:
    parcel = Parcel({"code/sleeper.py": SLEEPER})
    jobs = [ClusterJob(f"cell {n}", "sleeper", str(seconds).encode()) for n in range(cells)]
    begun, used, seen = time.monotonic(), cpu_seconds(), Seen()
    with closing(opened.run(parcel, jobs, attempts=3)) as events:
        for event in events:
            seen.take(event)
    took, used = time.monotonic() - begun, cpu_seconds() - used
    print(f"{len(seen.done)} of {cells} cells on {len(seen.nodes)} nodes in {took:.0f} s")
    print(f"each done once: {seen.ended == len(seen.done) == cells}")
    print(f"lost attempts: {seen.lost}")
    print(f"driver: {1000 * used / cells:.1f} ms of CPU a cell")
    print(f"driver: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    print(f"parcel: {len(parcel.packed) / 1e6:.2f} MB, once a node")
    print(f"result: {seen.came / len(seen.done):.0f} bytes a cell")
    print(f"object stores: {seen.stored / 1e6:.1f} MB at most, on all nodes together")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=1, help="cells of a node at the same time")
    parser.add_argument("--seconds", type=float, default=0.1, help="how long a cell sleeps")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, local_cluster(Path(folder)) as cluster:
        for number in range(said.nodes):
            cluster.add(f"node-{number}", cpus=said.at_once)
        with connected(cluster.address) as opened:
            run(opened, said.cells, said.seconds)


if __name__ == "__main__":
    main()
