"""The library's behaviour tests, inside a real vLLM.

They need the cpu engine of vLLM 0.23.0 in the cache: 6 GB, made by `vpatch engine --vllm 0.23`.
With VPATCH_TEST_ENGINE=1 it is made where it is missing; otherwise these are then skipped.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.conftest import RELEASE, vpatch
from vpatch.patch import load_patch

PATCHES = Path(__file__).parents[2] / "patches"


def proofs(kind):
    """The ids of the patches that have a behaviour test of a kind."""
    folders = sorted(path.parent for path in PATCHES.glob("*/patch.yaml"))
    patches = [load_patch(folder) for folder in folders]
    return [p.id for p in patches if any(proof.engine == kind for proof in p.declaration.proof)]


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
