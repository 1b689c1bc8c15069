"""A Ray cluster on this machine, in a process of its own: commands come on standard input.

Ray's own way to have several nodes on one machine. Each node is ended by its handle: `ray stop`
would end everybody's.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil

from tests.waiting import LIMIT

STARTS = 5
SMALL = {"object_store_memory": 80 * 1024 * 1024}

# Ray gives up on what starts slowly, as on a busy machine.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": str(LIMIT * 1000),
    "RAY_worker_register_timeout_seconds": str(LIMIT),
    "RAY_gcs_server_port_wait_time_s": str(LIMIT),
    "RAY_raylet_start_wait_time_s": str(LIMIT),
    "RAY_gcs_rpc_server_reconnect_timeout_s": str(LIMIT),
    # A node that was killed is noticed by its connection; one that is slow lives.
    "RAY_health_check_initial_delay_ms": "60000",
    "RAY_health_check_timeout_ms": "120000",
}


class NotStartedError(Exception):
    """No node of Ray starts on this machine, as often as it is tried."""


class LocalCluster:
    """A head without CPUs, and nodes by their labels `slot`.

    `temporary` is the folder for temporary files on all of them.
    """

    def __init__(self, process, temporary):
        self.process = process
        self.temporary = temporary
        self.address = self._said()["address"]

    def _said(self):
        line = self.process.stdout.readline()
        if not line:
            raise NotStartedError("the cluster ended")
        return json.loads(line)

    def _ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._said()

    def add(self, slot, *, cpus=1, env=None, **settings):
        """Start a node with this label; return the part of its id that its name shows."""
        answer = self._ask(do="add", slot=slot, cpus=cpus, env=env or {}, settings=settings)
        return answer["id"][:6]

    def kill(self, slot):
        """End a node at once, as a power cut does."""
        self._ask(do="kill", slot=slot)


@contextmanager
def local_cluster(folder, slots=(), env=None, **settings):
    """Start a cluster, and end it with the block. `settings` are Ray's own of the head."""
    log = folder / "cluster.log"
    with (
        # The jobs of other tests' clusters leave their folders elsewhere. A socket's path is short.
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as temporary,
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.local_cluster", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | SETTINGS | {"TMPDIR": temporary} | (env or {}),
            text=True,
        ) as process,
    ):
        try:
            cluster = LocalCluster(process, Path(temporary))
            for slot in slots:
                cluster.add(slot)
            yield cluster
        finally:
            process.stdin.close()
            process.wait(LIMIT)


def started(start):
    """Start a node. On a busy machine, Ray's own processes may be too slow for each other."""
    for _ in range(STARTS):
        try:
            return start()
        except Exception as error:  # noqa: BLE001 - Ray raises no other
            sys.stderr.write(f"it did not start: {error}\n")
    return start()


def _patience():
    """The time for Ray: it does not pass while what was started runs."""
    raylets = [p for p in psutil.Process().children(recursive=True) if p.name() == "raylet"]
    gone = any(p.status() == psutil.STATUS_ZOMBIE for p in raylets)
    return math.inf if gone else 0.0


def _ports():
    """Ports of a node's agents. A raylet that has to learn them waits for 15 s, and then crashes.

    They are below those that the system gives to others.
    """
    names = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")
    found = {}
    with ExitStack() as stack:
        while len(found) < len(names):
            tried = stack.enter_context(socket.socket())
            with suppress(OSError):
                tried.bind(("", random.randrange(15000, 32000)))
                found[names[len(found)]] = tried.getsockname()[1]
    return found


def _with_port_of_dashboard(start_raylet):
    """Let a raylet know this port as well, which no option can tell it; -1 says there is none."""
    signature = inspect.signature(start_raylet)

    def started(*args, **settings):
        given = signature.bind(*args, **settings).arguments
        name = f"dashboard_agent_listen_port_{given['node_id']}"
        Path(given["session_dir"], name).write_text("-1")
        return start_raylet(*args, **settings)

    return started


def serve(settings):
    from ray._private import node, services
    from ray.cluster_utils import Cluster

    # Both give up after 30 s, which a busy machine may take. Now they do when a process ended.
    node.time = SimpleNamespace(sleep=time.sleep, time=time.time, monotonic=_patience)
    Cluster._wait_for_node.__defaults__ = (LIMIT,)
    services.start_raylet = _with_port_of_dashboard(services.start_raylet)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints what it likes

    def tell(**answer):
        print(json.dumps(answer), file=told, flush=True)

    head = {"num_cpus": 0, "include_dashboard": False, **SMALL, **settings}
    cluster = started(lambda: Cluster(initialize_head=True, head_node_args=head | _ports()))
    nodes = {}
    tell(address=cluster.address)
    for line in sys.stdin:
        command = json.loads(line)
        slot = command["slot"]
        if command["do"] == "kill":
            cluster.remove_node(nodes.pop(slot), allow_graceful=False)
            tell()
            continue
        labels = {"slot": slot}
        own = {"labels": labels, "num_cpus": command["cpus"], **SMALL, **command["settings"]}
        kept = dict(os.environ)
        os.environ |= command["env"]
        nodes[slot] = started(lambda own=own: cluster.add_node(**own, **_ports()))
        os.environ.clear()
        os.environ |= kept
        tell(id=nodes[slot].node_id)
    cluster.shutdown()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
