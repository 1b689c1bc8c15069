"""The library's behaviour tests, inside a real vLLM.

They need the cpu engine of vLLM 0.23.0 in the cache: 6 GB, made by `vpatch engine --vllm 0.23`.
With VPATCH_TEST_ENGINE=1 it is made where it is missing; otherwise these are then skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vpatch.engine.environment import managed_folders
from vpatch.patch import load_patch
from vpatch.source.cache import default_cache_folder

PATCHES = Path(__file__).parents[2] / "patches"
RELEASE = "0.23.0"


def proofs(kind):
    """The ids of the patches that have a behaviour test of a kind."""
    folders = sorted(path.parent for path in PATCHES.glob("*/patch.yaml"))
    patches = [load_patch(folder) for folder in folders]
    return [p.id for p in patches if any(proof.engine == kind for proof in p.declaration.proof)]


def vpatch(*args):
    # In another folder, so that the library is the one beside the package and not a project's own.
    command = [sys.executable, "-m", "vpatch", *args]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def cpu_engine():
    made = [path.name for path in managed_folders(default_cache_folder())]
    there = any(name.startswith(f"engine-cpu-{RELEASE}-") for name in made)
    if not there and os.environ.get("VPATCH_TEST_ENGINE") != "1":
        pytest.skip("no cpu engine in the cache: vpatch engine --vllm 0.23 makes it")
    run = vpatch("engine", "--vllm", RELEASE)
    assert run.returncode == 0, run.stderr


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize("patch_id", proofs("cpu"))
def test_fails_before_and_passes_after(patch_id):
    run = vpatch("test", patch_id, "--engine", "cpu", "--vllm", RELEASE, "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    declared = load_patch(PATCHES / patch_id).declaration.proof
    documents = json.loads(run.stdout)
    assert len(documents) == sum(proof.engine == "cpu" for proof in declared)
    for document in documents:
        assert any(test["outcome"] == "failed" for test in document["pristine"]["tests"])
        assert all(test["outcome"] == "passed" for test in document["patched"]["tests"])


@pytest.mark.cuda
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU here")
@pytest.mark.parametrize("patch_id", proofs("cuda"))
def test_fails_before_and_passes_after_on_a_gpu(patch_id):
    run = vpatch("test", patch_id, "--engine", "cuda", "--vllm", RELEASE)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_patch_has_a_behaviour_test():
    everywhere = {path.parent.name for path in PATCHES.glob("*/patch.yaml")}
    assert everywhere == {*proofs("cpu")}
