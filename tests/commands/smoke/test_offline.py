"""Offline cells, with a vLLM of a few lines, and what may go wrong with one."""

from __future__ import annotations

import hashlib
import sys
import time

import pytest

from tests.commands.smoke.cells import cell_of
from tests.commands.smoke.fake_vllm import write_fake
from vpatch.commands.smoke.offline import run_offline
from vpatch.harness.predict import Counters
from vpatch.harness.sandbox import OverlaySandbox


@pytest.fixture
def offline(tmp_path):
    sandbox = write_fake(tmp_path / "site")
    layer = "sha256:" + hashlib.sha256((sandbox / "vllm/layer.py").read_bytes()).hexdigest()

    def run(fault="", **settings):
        cell = cell_of(environment={"FAKE_FAULT": fault}, **settings)
        workdir = tmp_path / "room"
        workdir.mkdir()
        place = OverlaySandbox(sys.executable, (sandbox,), {"vllm/layer.py": layer})
        return run_offline(cell, tmp_path / "model", place, workdir, tmp_path / "log")

    return run


def test_what_is_seen_of_a_cell_that_works(offline, tmp_path):
    found = offline(k=2, prompts=("four", (10, 20)), max_tokens=8, long_tokens=20)
    assert found.fault is None
    assert (found.version, found.left_behind) == ("0.50.0", 0)
    assert found.speculative == {"method": "mtp", "k": 2}
    assert list(found.digests) == ["vllm/layer.py"]
    assert found.digests["vllm/layer.py"].startswith("sha256:")
    prompts, long = found.passes["prompts"], found.passes["long"]
    assert [o.tokens for o in prompts.outputs] == [tuple(range(5, 13)), tuple(range(21, 29))]
    assert prompts.outputs[0].text == "5 6 7 8 9 10 11 12"
    # Two requests of eight tokens: three steps each after the first token.
    assert prompts.counters == Counters(6, 12, 12, (6, 6))
    assert (long.asked, long.outputs[0].count) == ((0,), 20)
    assert long.counters == Counters(7, 14, 14, (7, 7))
    half = found.passes["half"]
    assert (half.asked, half.outputs[0].count) == ((0,), 10)
    assert half.counters == Counters(3, 6, 6, (3, 3))
    assert list(found.passes) == ["prompts", "half", "long"]
    assert {(one.preemptions, one.cached_tokens) for one in found.passes.values()} == {(3, 128)}
    assert prompts.seconds > 0
    assert found.load_seconds > 0
    assert "flags [('max_model_len', 64), ('tensor_parallel_size', 1)]" in (
        (tmp_path / "log").read_text()
    )


def test_without_speculation(offline):
    found = offline(k=0)
    assert found.speculative is None
    assert found.passes["prompts"].counters == Counters()
    assert list(found.passes) == ["prompts"]


def test_without_speculation_a_long_answer_is_made_once(offline):
    assert list(offline(k=0, long_tokens=20).passes) == ["prompts", "long"]


def test_speculation_that_is_switched_off_is_told(offline):
    found = offline("switched off", k=2)
    assert found.fault is None
    assert found.speculative is None


@pytest.mark.parametrize(
    ("fault", "kind", "what", "cause"),
    [
        ("crash while loading", "does not start", "the process ended with 1", "no such layer"),
        ("out of memory", "does not start", "the process ended with 1", "out of memory: Run"),
        ("killed", "crashed", "the process ended with -9", None),
        ("hang while loading", "does not start", "not loaded after 1.5 s", None),
        ("hang", "hangs", "no token for 1 s", None),
    ],
)
def test_a_cell_that_does_not_end_well(offline, fault, kind, what, cause):
    begun = time.monotonic()
    slow = fault == "hang while loading"
    token = 1 if fault == "hang" else 600
    timeouts = {"start": 1.5 if slow else 600, "token": token, "cell": 600}
    found = offline(fault, k=1, timeouts=timeouts)
    # It does not wait for a process that sleeps for 600 s.
    assert time.monotonic() - begun < 500
    assert (found.fault.kind, found.fault.what) == (kind, what)
    assert (cause or "") in (found.fault.cause or "")
    assert (found.load_seconds is None) == (kind == "does not start")
    if "hang" in fault:
        assert found.fault.ending[-1] in {"loading weights", "waiting for the worker"}


def test_a_cell_that_takes_too_long(offline):
    found = offline("hang", k=1, timeouts={"start": 600, "token": 600, "cell": 2})
    assert str(found.fault) == "takes too long: not done after 2 s"


@pytest.mark.slow
def test_what_outlives_the_engine_is_counted_and_ended(offline):
    found = offline("left behind", k=1)
    assert (found.fault, found.left_behind) == (None, 2)


@pytest.mark.slow
def test_the_peak_of_memory_is_that_of_all_processes(offline):
    found = offline("hang", k=1, timeouts={"start": 600, "token": 2.5, "cell": 600})
    assert 5e6 < found.memory < 5e8
