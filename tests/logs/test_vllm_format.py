from __future__ import annotations

import io
from pathlib import Path

import pytest

from vpatch.logs import vllm_format
from vpatch.logs.vllm_format import (
    PIECE,
    as_utf8,
    encoding_of,
    printed_version,
    read_blocks,
    read_lines,
    read_pieces,
    release_of,
    split_prefix,
)
from vpatch.util.visible import without_colours

# As vLLM 0.23.0 prints it with VLLM_LOGGING_COLOR=1.
LOGO = (
    "\x1b[0;36m(APIServer pid=8482)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-21 08:58:56\x1b[0m "
    "\x1b[90m[api_utils.py:339]\x1b[0m  \x1b[93m▄▄\x1b[0m \x1b[94m▄█\x1b[0m \x1b[97;1m█     █     "
    "█ ▀▄▀ █\x1b[0m  version \x1b[97;1m0.23.0\x1b[0m\r\n"
)
ENGINE = "(EngineCore pid=37) INFO 11-21 08:53:19 [core.py:113] "


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (f"{ENGINE}Initializing a V1 LLM engine (v0.23.0) with config: model='m'", "0.23.0"),
        (f"{ENGINE}Dumping input data for V1 LLM engine (v0.33.0) with config: ", "0.33.0"),
        ("Initializing a V1 LLM engine (v0.23.0+cu129) with config: ", "0.23.0+cu129"),
        ("Initializing a V1 LLM engine (vdev) with config: ", "dev"),
        ("Launching vLLM (v0.24.0rc1) headless multiproc executor, with ", "0.24.0rc1"),
        ("INFO 11-21 08:00:00 [api_server.py:129] vLLM API server version 0.20.0\n", "0.20.0"),
        ("vLLM server version 0.31.0, serving model m", "0.31.0"),
        ("vLLM batch processing API version 0.22.1.dev3+g1b2c3d4.", "0.22.1.dev3+g1b2c3d4"),
        (LOGO, "0.23.0"),
        ("vLLM Version                 : 0.23.0 (git sha: 0fc695c, date: 2025)", "0.23.0"),
        ("Using FlashAttention version 3", None),
        ("NCCL version 2.27.5+cuda12.9 and (v1.2)", None),
        ("needs vLLM version 0.24.0 or later", None),
        ('File "/opt/vllm-0.23.0/vllm/version.py", line 5', None),
    ],
)
def test_the_version_that_a_line_tells(line, version):
    assert printed_version(line) == version


@pytest.mark.parametrize(
    ("printed", "release"),
    [
        ("0.23.0", "0.23.0"),
        ("0.23.0+cpu", "0.23.0"),
        ("0.24.0rc1", "0.24.0rc1"),
        ("0.22.1.dev3+g1b2c3d4", None),
        ("dev", None),
    ],
)
def test_the_release_that_a_build_is_of(printed, release):
    assert release_of(printed) == release


@pytest.mark.parametrize(
    ("line", "process", "message"),
    [
        (
            "(EngineCore_DP0 pid=7) ERROR 11-21 08:00:00 [core.py:1158] it",
            "EngineCore_DP0 pid=7",
            "it",
        ),
        ("ERROR 11-21 08:00:00 [v1/engine/core.py:1158] it", "", "it"),
        ("(Worker_TP1 pid=8) it", "Worker_TP1 pid=8", "it"),
        ("(RayWorkerProc pid=9, ip=10.0.0.2) INFO 11-21 08:00:00 [a.py:1] it", "pid=9, ip", "it"),
        ("TypeError: it (pid=7)", "", "TypeError: it (pid=7)"),
        ("(EngineCore pid=7) \r\n", "EngineCore pid=7", ""),
    ],
)
def test_the_prefix_of_a_line(line, process, message):
    found, rest = split_prefix(line)
    assert process in found
    assert bool(found) == bool(process)
    assert found == found.strip()
    assert rest.strip() == message


def test_a_coloured_prefix_is_the_same():
    plain = without_colours(LOGO)
    assert split_prefix(plain)[0] == "(APIServer pid=8482)"
    assert "\x1b" not in plain


def test_pieces_of_an_endless_line_have_its_number():
    endless = "x" + "ä" * PIECE
    stream = io.BytesIO(f"one\n{endless}\nthree\r\n\xff".encode() + b"\xff last")
    found = list(read_pieces(stream))
    assert [number for number, _ in found] == [1, 2, 2, 2, 3, 4]
    assert max(len(text) for _, text in found) <= PIECE
    assert "".join(text for number, text in found if number == 2) == f"{endless}\n"
    assert found[-1][1] == "\xff\N{REPLACEMENT CHARACTER} last"


def test_a_log_that_does_not_end(monkeypatch):
    monkeypatch.setattr(vllm_format, "LARGEST", 10 * vllm_format.PIECE)
    with Path("/dev/zero").open("rb") as stream, pytest.raises(OSError, match="larger than"):
        list(read_pieces(stream))


RECORD = "(A pid=1) ERROR 11-21 08:00:00 [core.py:7]"
TIME = "2026-08-01T10:00:00.123456789Z"


@pytest.mark.parametrize(
    "line",
    [
        f"{RECORD} it fails",
        f"vllm-1  | {RECORD} it fails",
        f"[pod/vllm-0/server] {RECORD} it fails",
        f"{TIME} {RECORD} it fails",
        f"{TIME} stderr F {RECORD} it fails",
        f"2026-08-01 10:00:00,123 {RECORD} it fails",
        '{"log":"' + RECORD + ' it fails\\n","stream":"stderr","time":"x"}',
        "(A pid=1) [rank0]: it fails",
        "(A pid=1) it &#102;ails",
    ],
)
def test_what_carries_a_line(line):
    (read,) = read_lines([(3, line.encode())])
    assert (read.number, read.process) == (3, b"(A pid=1)")
    assert read.message.strip() == b"it fails"


def test_parts_of_a_line():
    lines = [
        f"{TIME} stderr P (A pid=1) it",
        f"{TIME} stdout F (B pid=2) other",
        f"{TIME} stderr P  fails wi",
        f"{TIME} stderr F th care",
        f"{TIME} stderr P (A pid=1) cut",
    ]
    read = list(read_lines(enumerate((line.encode() for line in lines), start=1)))
    assert [(one.number, one.process, one.message) for one in read] == [
        (2, b"(B pid=2)", b"other"),
        (1, b"(A pid=1)", b"it fails with care"),
        (5, b"(A pid=1)", b"cut"),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_the_encoding_of_a_log(encoding):
    data = "it fails with care, ä\n".encode(encoding)
    assert encoding_of(data) == encoding
    assert as_utf8(io.BytesIO(data), data).read() == "it fails with care, ä\n".encode()


def test_blocks_have_all_lines():
    lines = [f"line {number} {'x' * (number % 300)}".encode() for number in range(5000)]
    long = b"y" * (3 * (1 << 19))
    found = list(read_blocks(io.BytesIO(b"\n".join([*lines, long, b"end"]))))
    numbered = [(n, line) for first, block in found for n, line in enumerate(block, first)]
    assert numbered[:5000] == list(enumerate(lines, start=1))
    assert numbered[-1] == (5002, b"end")
    assert b"".join(line for n, line in numbered if n == 5001) == long
