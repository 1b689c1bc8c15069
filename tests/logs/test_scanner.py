from __future__ import annotations

import io

from vpatch.logs.scanner import LogProbe, Scanner
from vpatch.logs.vllm_format import read_blocks

INFO = "(A pid=1) INFO 11-21 08:00:{:02} [metrics.py:101] all is well {}"
FAILS = "RuntimeError: it fails with care"
PROBE = LogProbe.of_text("fails", "it fails with care", quiet=False)
QUIET = LogProbe.of_text("engine", "LLM engine (v")


def hits(*lines, probes=(PROBE, QUIET)):
    stream = io.BytesIO("\n".join(lines).encode())
    return [(hit.probe.name, hit.line) for hit in Scanner(probes).scan_blocks(read_blocks(stream))]


def test_lines_that_are_passed_over_count():
    lines = [INFO.format(n % 60, n) for n in range(5000)]
    assert hits(*lines, FAILS) == [("fails", 5001)]


def test_a_report_is_no_error():
    assert hits(INFO.format(1, FAILS), INFO.format(2, FAILS)) == []
    assert hits(f"(A pid=1) WARNING 11-21 08:00:00 [x.py:1] {FAILS}") == [("fails", 1)]


def test_a_report_that_goes_on_in_the_next_line():
    first = "(A pid=1) INFO 11-21 08:00:00 [core.py:113] Initializing a V1 LLM"
    assert hits(first, " engine (v0.23.0) with config") == [("engine", 1)]
    # Also where such a line was passed over before.
    assert hits(first, INFO.format(1, 1), first, " engine (v0.23.0) with config") == [("engine", 3)]


def test_frames_are_those_of_the_last_traceback():
    lines = [
        "(A pid=1) Traceback (most recent call last):",
        '(A pid=1)   File "/x/old.py", line 1, in f',
        "(A pid=1) ValueError: other",
        "(A pid=1) Traceback (most recent call last):",
        '(A pid=1)   File "/x/new.py", line 2, in g',
        '(B pid=2)   File "/x/b.py", line 3, in h',
        f"(A pid=1) {FAILS}",
    ]
    stream = io.BytesIO("\n".join(lines).encode())
    (hit,) = Scanner([PROBE]).scan_blocks(read_blocks(stream))
    assert hit.frames == ('File "/x/new.py", line 2, in g',)


def test_a_traceback_is_not_above_the_message_of_another_record():
    error = "(A pid=1) ERROR 11-21 08:00:{:02} [core.py:9] {}"
    frame = '  File "/x/{}.py", line 1, in f'
    lines = [
        error.format(1, "Traceback (most recent call last):"),
        error.format(1, frame.format("old")),
        error.format(1, FAILS),
        error.format(2, FAILS),
        error.format(3, frame.format("new")),
        error.format(3, FAILS),
        f"(A pid=1) {FAILS}",
    ]
    stream = io.BytesIO("\n".join(lines).encode())
    frames = [hit.frames for hit in Scanner([PROBE]).scan_blocks(read_blocks(stream))]
    old, new = (frame.format(name).strip() for name in ("old", "new"))
    assert frames == [(old,), (), (new,), ()]
