from __future__ import annotations

import pytest

from vpatch.harness.faults import fault
from vpatch.harness.measured import Fault

WORKER = "(EngineCore_DP0 pid=12) (Worker_TP1 pid=34) "
RECORD = "ERROR 07-01 10:20:30 [core.py:1] "


def cause_of(tmp_path, *lines):
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines))
    return fault("crashed", "it ended", log).cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full: OSError: [Errno 28] No"),
        ("write failed: No space left on device", "the disk is full"),
        ("[Errno 98] error while attempting: Address already in use", "the port is in use"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "out of memory: torch.OutOfMemoryError: "),
        ("MemoryError", "out of memory"),
        ("Cannot allocate memory", "out of memory"),
        ("No available memory for the cache blocks.", "out of memory"),
        ("0.5 is less than desired GPU memory utilization (0.9)", "out of memory"),
        ("Engine core proc EngineCore_DP0 died", "a worker died"),
        ("a worker died unexpectedly", "a worker died"),
        ("vllm.v1.engine.exceptions.EngineDeadError: it is", "a worker died: vllm.v1.engine.exc"),
        ("WorkerProc rank 1 died", "a worker died"),
        ("ValueError: no such layer", "ValueError: no such layer"),
        ("KeyboardInterrupt: x", "KeyboardInterrupt: x"),
        ("my.module.SomeException: x", "my.module.SomeException: x"),
        ("INFO all is well", None),
        ("see ValueError: in a sentence", None),
        ("ValueError:", None),
    ],
)
@pytest.mark.parametrize("prefix", ["", WORKER, RECORD, WORKER + RECORD, "[rank0]: ", "\x1b[1;36m"])
def test_cause(tmp_path, prefix, line, cause):
    found = cause_of(tmp_path, "before", f"{prefix}{line}\x1b[0m", "after")
    assert found == cause if cause is None else found.startswith(cause)


def test_a_vllm_without_a_device_says_so_in_its_first_line(tmp_path):
    lines = ["RuntimeError: Device string must not be empty", *["ValueError: it died"] * 40]
    found = cause_of(tmp_path, *lines)
    assert found.startswith("vLLM found no device that this build, or a plugin, can run on")
    assert found.endswith(": Device string must not be empty")


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (
            "TypeError: f() got an unexpected keyword argument 'SYNTHETIC_MODE'",
            "vLLM 0.20 cannot speculate on a CPU",
        ),
        (
            "TypeError: Cannot inspect kernel parameters for function",
            "vLLM 0.30 cannot draft several tokens on a CPU without triton-cpu",
        ),
        (
            "AttributeError: '_OpNamespace' '_C' object has no attribute 'cpu_gemm_wna16'",
            "vLLM's CPU build has this INT4 kernel for few CPUs",
        ),
    ],
)
def test_a_defect_of_a_release_is_named(tmp_path, line, meaning):
    found = cause_of(tmp_path, line, "EngineDeadError: gone")
    assert found.startswith(meaning)
    assert line in found


def test_a_library_that_is_missing(tmp_path):
    line = "OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory"
    assert cause_of(tmp_path, line).startswith("a library is missing")


@pytest.mark.parametrize("order", [1, -1])
def test_what_explains_more_comes_first(tmp_path, order):
    lines = ["EngineDeadError: gone", "CUDA out of memory", "Address already in use", "Errno 28"]
    for count, cause in (
        (4, "the disk is full"),
        (3, "the port is in use"),
        (2, "out of memory"),
        (1, "a worker died"),
    ):
        assert cause_of(tmp_path, *lines[:count][::order]).startswith(cause)


def test_the_first_error_is_told_and_not_its_echoes(tmp_path):
    found = cause_of(tmp_path, WORKER + "ValueError: no such layer", "RuntimeError: see above")
    assert found == "ValueError: no such layer"


def test_a_known_cause_is_told_in_its_own_words(tmp_path):
    handled = "ModuleNotFoundError: No module named 'flash_attn'"
    found = cause_of(tmp_path, handled, "torch.OutOfMemoryError: CUDA out of memory")
    assert found == "out of memory: torch.OutOfMemoryError: CUDA out of memory"


def test_the_end_of_the_log(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"{number}\n" for number in range(100)))
    found = fault("hangs", "no token for 5 s", log)
    assert (found.kind, found.what, found.cause) == ("hangs", "no token for 5 s", None)
    assert found.ending == tuple(str(number) for number in range(85, 100))


def test_a_long_log_is_read_from_its_end(tmp_path):
    lines = ["ValueError: early", *["x"] * 2000]
    assert cause_of(tmp_path, *lines) is None
    assert cause_of(tmp_path, *lines, "ValueError: late") == "ValueError: late"


def test_an_empty_log(tmp_path):
    assert cause_of(tmp_path) is None


def test_in_words():
    assert str(Fault("hangs", "no token")) == "hangs: no token"
    assert str(Fault("crashed", "it ended", "out of memory")) == "crashed: it ended (out of memory)"
