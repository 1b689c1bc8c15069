"""Server cells, with a server of a few lines, and what may go wrong with one."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from tests.commands.smoke.cells import cell_of
from tests.commands.smoke.fake_vllm import write_fake
from vpatch.commands.smoke.server import run_server
from vpatch.harness import client
from vpatch.harness.launch import free_port
from vpatch.harness.predict import Counters
from vpatch.harness.sandbox import OverlaySandbox
from vpatch.util import limited

pytestmark = pytest.mark.slow

# Seconds. A busy machine must never reach them.
GENEROUS = {"start": 600.0, "token": 600.0, "cell": 600.0, "stop": 600.0}
# What a fault must reach, so that it is told of.
SHORT = {
    "hang while loading": {"start": 2.0},
    "never healthy": {"start": 2.0},
    "hang": {"token": 1.0},
    "deaf": {"stop": 2.0},
    "slow": {"cell": 3.0},
}


@pytest.fixture
def server(tmp_path, monkeypatch):
    sandbox = write_fake(tmp_path / "site")

    def run(fault="", port=None, **settings):
        if fault != "killed":  # no other fault ends a server after a bad answer
            monkeypatch.setattr("vpatch.commands.smoke.server._DEATH_SECONDS", 0.1)
        settings = {"k": 1, "timeouts": GENEROUS | SHORT.get(fault, {})} | settings
        cell = cell_of(mode="server", environment={"FAKE_FAULT": fault}, **settings)
        place = OverlaySandbox(sys.executable, (sandbox,), {"vllm/layer.py": "sha256:0"})
        return run_server(cell, tmp_path / "model", place, tmp_path, tmp_path / "log", port=port)

    return run


def test_what_is_seen_of_a_server_that_works(server):
    found = server(k=2, prompts=("four", (10, 20), "fives"))
    assert found.fault is None
    assert {name: one.asked for name, one in found.passes.items()} == {
        "warm-up": (0,),
        "streaming": (0,),
        "/v1/completions": (0, 0),
        "several at once": (0, 1, 2),
        "chat": (0, 0),
    }
    assert found.passes["several at once"].counters == Counters(9, 18, 18, (9, 9))
    assert found.passes["streaming"].counters == Counters(3, 6, 6, (3, 3))
    assert [one.preemptions for one in found.passes.values()] == [0, 1, 2, 3, 2]
    assert [one.cached_tokens for one in found.passes.values()] == [4, 4, 8, 12, 8]
    texts = [o.text for o in found.passes["several at once"].outputs]
    assert texts == ["5 6 7 8 9 10 11 12", "21 22 23 24 25 26 27 28", "6 7 8 9 10 11 12 13"]
    for name in ("streaming", "/v1/completions", "chat"):
        assert {(o.text, o.count) for o in found.passes[name].outputs} == {(texts[0], 8)}
    served = found.server
    assert set(served.problems) == {"/health", "/v1/models", *found.passes}
    assert not any(served.problems.values())
    assert (served.generated, served.answered) == (66, 66)
    assert found.digests["vllm/layer.py"].startswith("sha256:")
    assert (served.stop_code, found.left_behind, served.not_run) == (0, 0, {})
    assert served.stop_seconds > 0


def test_flags_as_the_server_takes_them(server, tmp_path):
    flags = {"enforce-eager": False, "rope-scaling": {"factor": 2.0}, "capture-sizes": [1, 2]}
    assert server(flags=flags, tensor_parallel=2).fault is None
    log = (tmp_path / "log").read_text()
    assert "tensor_parallel_size='2'" in log
    assert "enforce_eager=False, rope_scaling={'factor': 2.0}" in log
    assert "generation_config='vllm', capture_sizes=[1, 2]" in log
    assert "speculative_config={'method': 'mtp', 'num_speculative_tokens': 1}" in log


def test_speculation_that_is_switched_off_counts_nothing(server):
    found = server("switched off", k=2)
    assert found.fault is None
    assert all(one.counters == Counters() for one in found.passes.values())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash while loading", "does not start: the server ended with 1 (ValueError: no such l"),
        ("out of memory", "does not start: the server ended with 1 (out of memory: RuntimeError"),
        ("hang while loading", "does not start: not healthy after 2 s"),
        ("never healthy", "does not start: not healthy after 2 s"),
        ("hang", "hangs: no token in time: "),
        ("killed", "crashed: the server ended with 1 (a worker died: EngineDeadError"),
        ("cut", "wrong answer: /v1/completions ended its stream without [DONE]"),
        ("refuses", "wrong answer: /v1/completions answered 500: "),
    ],
)
def test_a_server_that_does_not_end_well(server, fault, said):
    begun = time.monotonic()
    found = server(fault)
    # It does not wait for a process that sleeps for 600 s.
    assert time.monotonic() - begun < 500
    assert str(found.fault).startswith(said)
    if fault == "hang":
        assert found.fault.ending[-1] == "waiting for the worker"
        assert list(found.passes) == ["warm-up"] or not found.passes


def test_a_server_that_does_not_stop(server):
    found = server("deaf")
    assert str(found.fault) == "hangs: asked to end, it was there 2 s later"
    assert found.server.stop_code is None


def test_a_server_that_stops_badly(server):
    assert server("bad stop").server.stop_code == 7


def test_a_model_of_another_name(server):
    problems = server("another model").server.problems
    assert problems["/v1/models"] == ("it names another, not smoke",)


def test_counters_that_do_not_agree(server, monkeypatch):
    monkeypatch.setattr("vpatch.commands.smoke.server._COUNTED_SECONDS", 0.1)
    served = server("miscounted").server
    # One too many for each of: warm-up, stream, two whole, three at once, two chats.
    assert served.generated == served.answered + 9


def test_another_text_in_one_piece(server):
    found = server("another text")
    assert found.passes["streaming"].outputs[0].text != found.passes["chat"].outputs[0].text


@pytest.mark.parametrize(
    ("fault", "prompts", "reason"),
    [
        ("no chat template", ("four",), "the model has no chat template"),
        ("", ((1, 2), "four"), "the prompts are of token ids"),
    ],
)
def test_chat_that_cannot_be_asked(server, fault, prompts, reason):
    found = server(fault, prompts=prompts)
    assert found.fault is None
    assert found.server.not_run == {"chat": reason}
    assert "chat" not in found.passes


def test_an_answer_that_is_not_understood(server):
    said = str(server("not understood").fault)
    assert (
        said == "wrong answer: /v1/completions answered what is not understood: KeyError: 'usage'"
    )


def test_an_answer_that_does_not_end(server, monkeypatch):
    monkeypatch.setattr(limited, "LARGEST_ANSWER", 100)
    assert "the answer is larger than 0 MB" in str(server().fault)


def test_a_stream_that_does_not_end(server, monkeypatch):
    monkeypatch.setattr(client, "_LARGEST", 100)
    assert "the answer is larger than 0 MB" in str(server().fault)


def test_a_stream_that_is_none(server):
    problems = server("one piece", max_tokens=16).server.problems
    assert problems["streaming"] == ("all 16 tokens came in one piece",)


def test_a_server_that_is_too_slow_for_its_cell(server):
    found = server("slow", max_tokens=64)
    assert str(found.fault) == "takes too long: not done after 3 s"
    assert found.server.not_run["chat"] == "it did not come so far"
    assert "/health" in found.server.problems


def test_two_prompts_are_three_requests_at_once(server):
    assert server().passes["several at once"].asked == (0, 1, 0)


def test_the_tokens_are_told(server):
    for one in server(prompts=("four",)).passes.values():
        assert {o.tokens for o in one.outputs} <= {(5, 6), tuple(range(5, 13))}


def test_a_proxy_is_not_asked(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert server().fault is None


def test_a_port_that_is_in_use(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = server(port=port)
    assert str(found.fault) == f"does not start: port {port} is in use on this machine"


def test_the_port_that_was_asked_for_is_free_afterwards(server, tmp_path):
    port = free_port(None)
    assert server(port=port).fault is None
    assert f"port={port}," in (tmp_path / "log").read_text()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
