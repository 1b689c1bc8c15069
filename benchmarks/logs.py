"""How long `vpatch diagnose` takes for a log of 301 MB.

    python benchmarks/logs.py [reports|errors|requests]

The log is made in a temporary folder, as a busy server writes it: metrics, requests with prompts,
answers, and tracebacks. The last line has a known message.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SIZE = 301_000_000
CLOCK = "05-06 06:{:02}:{:02}"
STATS = (
    "(APIServer pid=1) INFO {} [loggers.py:271] Engine 000: Avg prompt throughput: {:.1f} "
    "tokens/s, Avg generation throughput: {:.1f} tokens/s, Running: {} reqs, Waiting: 0 reqs\n"
)
METRICS = (
    "(APIServer pid=1) INFO {} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
    "2.03, Accepted throughput: 2.50 tokens/s, Drafted throughput: 365.14 tokens/s, "
    "Accepted: {} tokens, "
    "Drafted: 3652 tokens, Per-position acceptance rate: 0.727, 0.500, 0.300, 0.100, "
    "Avg Draft acceptance rate: 40.7%\n"
)
REQUEST = (
    "(APIServer pid=1) INFO {} [logger.py:40] Received request chatcmpl-{:032x}: prompt: '{}'\n"
)
ANSWER = '(APIServer pid=1) INFO:     10.0.0.{}:{} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
FRAME = (
    "(Worker_TP0 pid={}) ERROR {} [multiproc_executor.py:962]   "
    'File "/usr/lib/dist-packages/vllm/v1/worker/gpu_worker.py", line {}, in execute_model\n'
)
LAST = "KeyError: 'model.layers.43.mtp_block.main_norm.weight'\n"
WORDS = [
    "the",
    "of",
    "model",
    "answer",
    "please",
    "write",
    "summary",
    "about",
    "system",
    "user",
    "token",
    "what",
    "river",
    "jump",
]


def line(kind: str, number: int) -> str:
    chance = random.Random(number)  # noqa: S311 - no secret
    clock = CLOCK.format(number % 60, number % 59)
    match {"errors": 9, "requests": 3}.get(kind, number % 10):
        case 0 | 1:
            return STATS.format(clock, chance.random() * 999, chance.random() * 99, number % 9)
        case 2:
            return METRICS.format(clock, chance.randrange(3652))
        case 3:
            words = " ".join(chance.choice(WORDS) for _ in range(30))
            return REQUEST.format(clock, chance.getrandbits(128), words)
        case 8 | 9:
            return FRAME.format(37 + number % 8, clock, number % 900)
        case _:
            return ANSWER.format(number % 255, number % 65535)


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "reports"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.log"
        with path.open("w", encoding="utf-8") as file:
            size = number = 0
            while size < SIZE:
                size += file.write(line(kind, number))
                number += 1
            file.write(LAST)
        command = [sys.executable, "-m", "vpatch", "diagnose", str(path), "--offline"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if "mtp-loader-meets-dspark" not in run.stdout:
            sys.exit(run.stdout + run.stderr)
        seconds, size = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3
        print(f"{kind}: {seconds:.1f} s of CPU, {size:.0f} MB")


if __name__ == "__main__":
    main()
