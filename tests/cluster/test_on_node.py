"""What a worker does for a job, without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.waiting import LIMIT, until
from vpatch.cluster.parcel import Parcel

# A worker that is killed at a step of its work. Ray's part is a stand-in.
WORKER = """
import json, os, signal, sys, types, zipfile
from pathlib import Path

def die(*_args, **_settings):
    os.kill(os.getpid(), signal.SIGKILL)

class Fails(Exception):
    pass

ray = types.ModuleType("ray")
context = types.SimpleNamespace(get_node_id=lambda: "node")
ray.get_runtime_context = lambda: context
ray.get = lambda *_args, **_settings: False
ray.exceptions = types.SimpleNamespace(RayError=Fails)
sys.modules["ray"] = ray
from vpatch.cluster import on_node

def half(archive, folder):
    archive.extract(archive.namelist()[0], folder)
    die()

packed, step, digest = Path(sys.argv[1]).read_bytes(), sys.argv[2], sys.argv[3]
if step == "unpacks":
    zipfile.ZipFile.extractall = half
elif step == "makes the folder":
    Path.mkdir = lambda folder, **settings: (os.mkdir(folder), die())
elif step == "starts the job":
    on_node._watch = die
mailbox = types.SimpleNamespace(add=types.SimpleNamespace(remote=lambda *_: None))
order = {"attempt": "one", "digest": digest, "module": "sleeper", "job": b"", "limit": 3600}
on_node.run_job(packed, order, mailbox)
"""
SLEEPER = b"import time\ntime.sleep(3600)\n"


@pytest.mark.parametrize("step", ["makes the folder", "unpacks", "starts the job"])
def test_a_worker_that_dies_leaves_nothing(tmp_path, step):
    parcel = Parcel({"code/sleeper.py": SLEEPER})
    (tmp_path / "parcel").write_bytes(parcel.packed)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, tmp_path / "parcel", step, parcel.digest],
        env=os.environ | {"TMPDIR": str(temporary)},
        check=False,
        timeout=LIMIT,
    )
    assert ended.returncode == -9
    until(lambda: list(temporary.iterdir()) == [])
