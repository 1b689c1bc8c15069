from __future__ import annotations

import os
from dataclasses import replace

import pytest

from vpatch.declare.smoke import Needs
from vpatch.errors import ExitCode
from vpatch.harness.machine import Gpu, Machine, gpu_memory, missing, this_machine

H200 = Gpu("NVIDIA H200", "9.0", 139.8, "570.1")
BARE = Machine("Linux", "x", 2, 16.0, ())
HOPPER = replace(BARE, gpus=(H200, H200))


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Put a fake nvidia-smi on PATH, and leave what it was given in `arguments`."""

    def write(answer, code=0):
        tool = tmp_path / "nvidia-smi"
        (tmp_path / "answer").write_text(answer)
        tool.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" >"{tmp_path}/arguments"\n'
            f'while IFS= read -r line; do printf "%s\\n" "$line"; done <"{tmp_path}/answer"\n'
            f"exit {code}\n"
        )
        tool.chmod(0o755)
        return tmp_path / "arguments"

    monkeypatch.setenv("PATH", str(tmp_path))
    return write


def test_gpus(smi):
    arguments = smi("NVIDIA H200, 9.0, 143771, 570.1\nTesla T4, 7.5, 15360, 570.1\n")
    assert this_machine().gpus == (
        Gpu("NVIDIA H200", "9.0", 140.4, "570.1"),
        Gpu("Tesla T4", "7.5", 15.0, "570.1"),
    )
    assert arguments.read_text().split() == [
        "--query-gpu=name,compute_cap,memory.total,driver_version",
        "--format=csv,noheader,nounits",
    ]


def test_a_machine_without_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = this_machine()
    assert (found.gpus, found.problem) == ((), None)
    assert found.cores == os.cpu_count()
    assert found.memory > 0
    assert found.processor
    assert found.system.startswith("Linux ")


def test_gpus_that_do_not_answer(smi):
    smi("", code=9)
    found = this_machine()
    assert found.gpus == ()
    assert found.problem.startswith("nvidia-smi does not answer: ")
    assert found.problem.endswith("exit status 9.")
    assert gpu_memory() is None
    (error,) = missing(Needs(gpus=1), found, "cuda")
    assert f"this machine has: none ({found.problem})" in error.what


def test_memory_in_use(smi):
    arguments = smi("1024\n512\n")
    assert gpu_memory() == 1536 * 2**20
    assert "--query-gpu=memory.used" in arguments.read_text().split()


def test_a_gpu_that_shares_the_memory_of_the_machine(smi):
    smi("NVIDIA GB10, 12.1, [N/A], 580.1\n")
    assert this_machine().gpus[0].name == "NVIDIA GB10"


@pytest.mark.parametrize(
    ("needs", "machine", "engine"),
    [
        ({}, BARE, "cpu"),
        ({"engine": "cpu"}, BARE, "cpu"),
        ({"engine": "maca"}, BARE, "maca"),
        ({"engine": "cuda", "gpus": 2, "capability": "9.0", "memory-gib": 139.8}, HOPPER, "cuda"),
    ],
)
def test_nothing_is_missing(needs, machine, engine):
    assert missing(Needs.model_validate(needs), machine, engine) == []


@pytest.mark.parametrize(
    ("needs", "machine", "what"),
    [
        ({"gpus": 1}, BARE, "needs a GPU; this machine has: none"),
        ({"gpus": 3}, HOPPER, "needs 3 GPUs; this machine has: NVIDIA H200 (9.0), NVIDIA H200"),
        ({"gpus": 1, "capability": "10.0"}, HOPPER, "needs a GPU of compute capability 10.0; this"),
        ({"gpus": 2, "memory-gib": 139.9}, HOPPER, "needs 2 GPUs with 139.9 GiB"),
        (
            {"gpus": 2, "capability": "9.0"},
            replace(BARE, gpus=(H200, replace(H200, capability="8.0"))),
            "needs 2 GPUs of compute capability 9.0; this machine has: NVIDIA H200 (9.0), NVIDIA",
        ),
    ],
)
def test_gpus_that_are_missing(needs, machine, what):
    (found,) = missing(Needs.model_validate(needs), machine, "cuda")
    assert what in found.what
    assert found.hint == "run it on a machine that has what the recipe needs"
    assert (found.code, found.exit_code) == ("harness.machine-lacks", ExitCode.ENVIRONMENT)


@pytest.mark.parametrize(
    ("needed", "engine", "hint"),
    [
        ("cuda", "cpu", "give --engine cuda, on a machine that has the hardware"),
        ("cpu", "cuda", None),
        ("maca", "cuda", "give --engine PYTHON, of an environment with its plugin, on a machine"),
    ],
)
def test_another_engine(needed, engine, hint):
    (found,) = missing(Needs(engine=needed), BARE, engine)
    assert found.code == "harness.wrong-engine"
    assert f"needs a vLLM that runs on {needed}; this one runs on {engine}" in found.what
    assert hint is None or found.hint.startswith(hint)


def test_the_engine_to_give_is_the_one_that_is_needed():
    (found,) = missing(Needs(engine="cpu"), BARE, "cuda")
    assert found.hint.startswith("give --engine cpu")


def test_all_that_is_missing_is_said():
    assert len(missing(Needs(engine="maca", gpus=1), BARE, "cpu")) == 2
