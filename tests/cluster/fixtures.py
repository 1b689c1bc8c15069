"""A cluster for tests of commands, and a project whose engine any of its nodes can run."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.cluster.local_cluster import LocalCluster, NotStartedError, local_cluster
from tests.commands.smoke.fake_vllm import FAKE
from tests.commands.smoke.planned import give_plan, write_plan
from tests.environments import environment_with_vllm
from tests.projects import VERSION
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

# What a node's processes would show to an engine, if nobody took care.
SECRET = "hf_of_the_node"  # noqa: S105 - nobody's
_ENVIRONMENT = "import os\nprint(dict(os.environ))\n"


@pytest.fixture(scope="session", name="cluster")
def fixture_cluster(tmp_path_factory):
    """A head, and two nodes with one CPU each and the labels a and b."""
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        try:
            started = stack.enter_context(local_cluster(folder, "ab", env={"HF_TOKEN": SECRET}))
        except NotStartedError:
            # Not a matter of vpatch. `.ci/run` prints what was skipped.
            pytest.skip(f"Ray starts no node here: {(folder / 'cluster.log').read_text()[-400:]}")
        yield started


@dataclass
class Clustered:
    """A project, a cluster, and the Python of an engine for `--engine`."""

    project: object
    cluster: LocalCluster
    python: Path

    def start(self, *args, on=None):
        command = ["smoke", "--vllm", "0.50", "--engine", self.python]
        return self.project.start(*command, "--cluster", on or self.cluster.address, *args)

    def run(self, *args, on=None, code=0, do=("smoke", "--vllm", "0.50")):
        command = [*do, "--engine", self.python]
        where = ["--cluster", on or self.cluster.address] if on != "here" else []
        return self.project.run(*command, *where, *args, code=code, in_process=False)

    def plan(self, text):
        write_plan(self.project, text)


def living(python):
    """The processes of an engine's Python, and the jobs that start them."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if process.status() != psutil.STATUS_ZOMBIE and words[:1] == [str(python)]:
                found.append(process)
    return found


@pytest.fixture(name="clustered")
def fixture_clustered(project, cluster):
    """The same, and at the end nothing of it runs any more."""
    give_plan(project)
    files = FAKE | {"torch.py": "", "vllm/collect_env.py": _ENVIRONMENT}
    engine = {path: text.encode() for path, text in files.items()}
    made = environment_with_vllm(project.folder.parent / "engine", engine, version=VERSION)
    yield Clustered(project, cluster, made.python)
    until(lambda: not living(made.python))


def jobs_of(python):
    """The ids of the jobs that use an engine's Python: a variable of each process has it."""
    return {process.environ().get("VPATCH_JOB") for process in living(python)}


__all__ = ["SECRET", "fixture_cluster", "fixture_clustered", "jobs_of", "living"]
