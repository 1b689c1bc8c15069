"""What is said of a cluster that fails. tests/commands/test_cluster.py has real nodes."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import ray

from vpatch.cluster.connection import connected
from vpatch.cluster.errors import ClusterError
from vpatch.cluster.job import ClusterJob, JobBegun, JobDone
from vpatch.cluster.nodes import ClusterNode
from vpatch.cluster.parcel import Parcel
from vpatch.cluster.running import RayCluster, _JobRun
from vpatch.cluster.storage import STORED, Storage
from vpatch.runs.cluster_options import OnCluster
from vpatch.runs.cluster_run import ClusterRun
from vpatch.util.digest import digest_of

# As Ray says it, from its check of versions.
MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on node 10.0.0.1 was started with:
    Ray: 2.9.0
    Python: 3.11.7
"""


def test_a_cluster_with_another_ray(monkeypatch):
    def init(*_args, **_settings):
        raise RuntimeError(MISMATCH)

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError) as error, connected("auto"):
        pass
    assert error.value.code == "cluster.version-differs"
    assert "Ray: 2.60.0" in error.value.what
    assert "Ray: 2.9.0" in error.value.what
    assert "\n" not in error.value.what


def test_a_cluster_that_says_at_the_end_why(monkeypatch):
    def init(*_args, **_settings):
        raise ConnectionError("Initialization failure from server:\nTraceback\nOSError: no port")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError) as error, connected("auto"):
        pass
    assert error.value.code == "cluster.not-found"
    assert "Initialization failure from server: OSError: no port" in error.value.what


def test_a_cluster_of_its_own_that_starts_too_slowly(monkeypatch):
    def init(*_args, **_settings):
        raise Exception("The current node timed out during startup.")  # noqa: TRY002 - as Ray does

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ClusterError) as error, connected("local"):
        pass
    assert error.value.code == "cluster.not-found"
    assert "timed out during startup" in error.value.what


def test_an_object_store_without_room(monkeypatch):
    def put(_content):
        raise ray.exceptions.ObjectStoreFullError

    monkeypatch.setattr(ray, "put", put)
    with pytest.raises(ClusterError) as error:
        RayCluster("head:1").send(Parcel({"a": b"1"}))
    assert error.value.code == "cluster.store-full"
    assert "no room" in error.value.what
    assert "--object-store-memory" in error.value.hint


def test_a_cluster_that_stops_to_answer():
    def get(_ref, timeout):
        raise ray.exceptions.GetTimeoutError(f"not ready after {timeout} s")

    run = object.__new__(_JobRun)
    run.ray = SimpleNamespace(get=get, exceptions=ray.exceptions)
    run.mailbox = SimpleNamespace(take=SimpleNamespace(remote=lambda: None))
    run.cluster = RayCluster("head:1")
    with pytest.raises(ClusterError) as error:
        list(run._messages())
    assert error.value.code == "cluster.lost"
    assert "--resume" in error.value.hint


def run_of(monkeypatch, count, files, **settings):
    """Jobs of a cluster that is not there: each begins when the one before it has ended."""
    looked, refs = [], []

    def letters():
        name = next(iter(run.open))
        return [(name, "begun", {"node": "1", "host": "a", "clock": 0.0})]

    def wait(waited, num_returns, timeout):
        assert num_returns <= len(waited), timeout
        looked.append(len(waited))
        done = [ref for ref in waited if ref in run.begun]
        return done, [ref for ref in waited if ref not in done]

    def remote(*_arguments):
        refs.append(object())
        return refs[-1]

    task = SimpleNamespace(options=lambda **_options: SimpleNamespace(remote=remote))
    mailbox = SimpleNamespace(take=SimpleNamespace(remote=lambda: "letters"))
    fake = SimpleNamespace(
        remote=lambda _function: task,
        wait=wait,
        get=lambda ref, **_limit: letters() if ref == "letters" else files(),
        exceptions=ray.exceptions,
    )
    node = ClusterNode("1", "a", 1, 0, {})
    cluster = SimpleNamespace(
        ray=fake,
        address="head:1",
        mailbox=mailbox,
        nodes=lambda: [node],
        send=lambda _parcel: "sent",
    )
    monkeypatch.setattr("vpatch.cluster.running._IDLE_SECONDS", 0)
    jobs = [ClusterJob(f"cell {number}", "module", b"") for number in range(count)]
    run = _JobRun(cluster, Parcel({"a": b"1"}), jobs, 2, None, **settings)
    run.looked = math.inf
    return run, looked


def test_only_what_began_is_looked_at_each_time(monkeypatch):
    """A look costs Ray time for each job, and thousands wait for a node."""
    run, looked = run_of(monkeypatch, 50, dict)
    done = [event.job for event in run.events() if isinstance(event, JobDone)]
    assert done == list(range(50))
    assert sum(looked) == 2 * 50


def test_a_job_that_was_lost_before_it_began_is_noticed(monkeypatch):
    """Nothing that began tells of it: a node died that had only been given the job."""

    def files():
        raise ray.exceptions.NodeDiedError("gone")

    run, looked = run_of(monkeypatch, 1, files)
    now = [0.0]

    def passes(seconds=0.0):
        now[0] += seconds
        assert now[0] < 1000, "nobody looked"

    def wait(waited, **_settings):
        passes(0.5)
        looked.append(len(waited))
        return list(waited), []

    clock = SimpleNamespace(monotonic=lambda: now[0], time=lambda: 0.0, sleep=lambda _: passes(0.1))
    monkeypatch.setattr("vpatch.cluster.running.time", clock)
    run.ray.wait = wait
    run.ray.get = lambda ref, **_limit: [] if ref == "letters" else files()
    run.looked = 0.0
    lost = list(run.events())
    assert [(one.attempt, one.node, one.last) for one in lost] == [
        (1, None, False),
        (2, None, True),
    ]


def test_files_of_a_lying_node_are_a_lost_attempt(monkeypatch):
    """They would be written outside of the folder of the evidence."""
    answers = iter([{"../../x": b""}, {"x": b""}])
    run, _ = run_of(monkeypatch, 1, lambda: next(answers))
    lost, done = [event for event in run.events() if not isinstance(event, JobBegun)]
    assert "is not a path below" in lost.why
    assert done.files == {"x": b""}


def test_a_file_of_the_storage_that_is_not_whole_is_a_lost_attempt(monkeypatch, tmp_path):
    storage = Storage.of_a_run(str(tmp_path))
    entry = {"place": "one/0", "digest": digest_of(b"whole")}
    contents = iter([b"who", b"whole"])

    def files():
        storage.write(entry["place"], next(contents))
        return {"result": b"{}", STORED: json.dumps({"log": entry}).encode()}

    run, _ = run_of(monkeypatch, 1, files, storage=storage)
    lost, done = [event for event in run.events() if not isinstance(event, JobBegun)]
    assert (lost.why, lost.last) == ("log in the storage is not what the node wrote", False)
    assert (done.attempt, done.files) == (2, {"result": b"{}", "log": b"whole"})


def test_a_storage_that_keeps_the_folder_of_a_run_is_said(tmp_path):
    notes = []
    where = OnCluster("head:1", storage=str(tmp_path))
    progress = SimpleNamespace(note=notes.append)
    run = ClusterRun([], {}, where, None, progress)
    with run._storage() as storage:
        storage._system = SimpleNamespace(invalidate_cache=list, rm=rm_that_fails)
    (note,) = notes
    assert note == f"the storage does not remove files: not yours; remove {storage.url} yourself"


def rm_that_fails(_path, *, recursive):
    raise PermissionError("not yours" if recursive else "no folder")
