"""vpatch run with Ray: the workers of each node have the patched files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tests.environments import environment_with_vllm
from tests.index_server import Index, serve
from tests.projects import SLOW_MODE, VERSION, archive, write_patch
from tests.waiting import LIMIT

# The environment of the tests has Ray.
RAY = Path(ray.__file__).parents[1]
# Two nodes, started one by one; each has workers of its own.
CLUSTER = """
import json, ray
from pathlib import Path
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

@ray.remote(num_cpus=0)
def told():
    import os, vllm.engine
    node = ray.get_runtime_context().get_node_id()
    return node, os.getpid(), vllm.engine.__file__, Path(vllm.engine.__file__).read_text()

def started(start):
    for _ in range(5):
        try:
            return start()
        except Exception as error:
            print("it did not start:", error)
    return start()

if __name__ == "__main__":
    # A busy machine takes longer to start a node than Ray waits for it.
    import time, types, ray._private.node as node
    slow = lambda: time.monotonic() / 4
    node.time = types.SimpleNamespace(sleep=time.sleep, time=time.time, monotonic=slow)
    small = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024}
    head = {**small, "include_dashboard": False}
    cluster = started(lambda: Cluster(initialize_head=True, head_node_args=head))
    started(lambda: cluster.add_node(**small))
    ray.init(address=cluster.address, log_to_driver=False)
    found = []
    for node in ray.nodes():
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        found.append(ray.get(told.options(scheduling_strategy=there).remote()))
    Path("told.json").write_text(json.dumps(found))
    ray.shutdown()
    cluster.shutdown()
"""

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]


def test_workers_of_two_nodes_have_the_patched_files(isolated, monkeypatch):
    project = isolated / "project"
    write_patch(project / "patches", "slow-mode", SLOW_MODE)
    (project / "cluster.py").write_text(CLUSTER)
    made = environment_with_vllm(isolated / "env")
    (made.site / "ray.pth").write_text(f"{RAY}\n")
    before = made.state()
    with serve(Index()) as index:
        index.add(VERSION, archive())
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        command = [sys.executable, "-m", "vpatch", "run", "--vllm", VERSION, "--trust", "--"]
        subprocess.run(
            [*command, made.python, "cluster.py"], cwd=project, check=True, timeout=LIMIT
        )
    found = json.loads((project / "told.json").read_text())
    assert len({node for node, *_ in found}) == 2
    assert len({process for _, process, *_ in found}) == 2
    overlays = str(isolated / "cache" / "overlays")
    for _, _, file, text in found:
        assert file.startswith(overlays)
        assert 'mode="slow"' in text
    assert made.state() == before
