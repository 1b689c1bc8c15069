"""What cells cost the driver of a cluster: many cells that sleep, on local nodes.

python benchmarks/cluster_simulation.py --cells 2000 --nodes 8 --at-once 4
"""

from __future__ import annotations

import argparse
import resource
import time
from contextlib import closing
from types import SimpleNamespace

import ray
from ray._private import node
from ray.cluster_utils import Cluster

from vpatch.cluster.connection import connected
from vpatch.cluster.job import ClusterJob, JobBegun, JobDone, JobLost
from vpatch.cluster.parcel import Parcel

# A cell without vpatch or an engine: what it costs is what the cluster costs.
SLEEPER = b"""
import sys, time
from pathlib import Path
out = Path(sys.argv[1], "out")
(out / "log").write_text("a line of a log\\n" * 60)
time.sleep(float(Path(sys.argv[1], "job.json").read_text()))
(out / "result.json").write_text("x" * 12_000)
"""
SMALL = {"object_store_memory": 80 * 1024 * 1024}


def cpu_seconds() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=4, help="cells of a node at the same time")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a cell sleeps")
    said = parser.parse_args()
    # Ray gives up after 30 s, and a small machine takes longer.
    node.time = SimpleNamespace(
        sleep=time.sleep, time=time.time, monotonic=lambda: time.monotonic() / 30
    )
    head = {"num_cpus": 0, "include_dashboard": False, **SMALL}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(said.nodes):
        cluster.add_node(num_cpus=said.at_once, **SMALL)
    parcel = Parcel({"code/sleeper.py": SLEEPER})
    content = str(said.seconds).encode()
    jobs = [ClusterJob(f"cell {n}", "sleeper", content) for n in range(said.cells)]
    with connected(cluster.address) as opened:
        begun, used = time.monotonic(), cpu_seconds()
        counts = dict.fromkeys((JobBegun, JobDone, JobLost), 0)
        done, came, nodes = set(), 0, set()
        with closing(opened.run(parcel, jobs, attempts=3)) as events:
            for event in events:
                counts[type(event)] = counts.get(type(event), 0) + 1
                if isinstance(event, JobDone):
                    done.add(event.job)
                    nodes.add(event.node)
                    came += sum(map(len, event.files.values()))
        seconds, used = time.monotonic() - begun, cpu_seconds() - used
    print(f"{len(done)} of {said.cells} cells on {len(nodes)} nodes in {seconds:.0f} s")
    print(f"each done once: {counts[JobDone] == len(done) == said.cells}")
    print(f"lost attempts: {counts[JobLost]}")
    print(f"driver: {1000 * used / said.cells:.1f} ms of CPU a cell")
    print(f"driver: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    print(f"parcel: {len(parcel.packed) / 1e6:.2f} MB, once a node")
    print(f"result: {came / len(done):.0f} bytes a cell")
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
