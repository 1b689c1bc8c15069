"""Measure what `vpatch run` adds to the start of a command.

    python benchmarks/run.py [--rounds 9] [--python PYTHON]

`vpatch run --dry-run`, `vpatch run -- PYTHON -c pass` and plain `PYTHON -c pass` take turns. PYTHON
is that of an environment with vLLM 0.23.0, by default the CPU engine in the cache. Warm means that
vpatch has run the same before. The first run makes the overlay, and is measured once. Reported are
wall time and CPU time (user and system, children included) in seconds, and peak resident memory in
MB. vpatch uses a cache of its own, with the user's unpacked trees. Ends with 1 where a limit is
missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import VPATCH, machine, measure, own_cache, show, verdicts

from vpatch.engine.environment import managed_folders
from vpatch.source.cache import default_cache_folder

RUN = [*VPATCH, "run", "--recipe", "vllm-0.23"]
LIMITS = {
    "run --dry-run, s of CPU": 0.3,
    "run more than the command alone, s of CPU": 0.3,
    "memory, MB": 200.0,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--python", type=Path, default=None)
    options = parser.parse_args()
    user = default_cache_folder()
    python = str(options.python or engine_in(user))
    check, run, plain = [], [], []
    with tempfile.TemporaryDirectory(prefix="vpatch-benchmark-", dir=user.parent) as name:
        folder = Path(name)
        own_cache(folder / "cache")
        command = [python, "-c", "pass"]
        first = measure([*RUN, "--", *command], at=folder)
        for _ in range(options.rounds):
            check.append(measure([*RUN, "--dry-run", "--", *command], at=folder))
            run.append(measure([*RUN, "--", *command], at=folder))
            plain.append(measure(command, at=folder))
    print(f"{machine()}; medians of {options.rounds} rounds (least to most)")
    show("vpatch run -- python -c pass, the first time", [first])
    show("vpatch run --dry-run, warm", check)
    show("vpatch run -- python -c pass, warm", run)
    show("python -c pass", plain)
    cpu = [statistics.median(one.cpu for one in runs) for runs in (check, run, plain)]
    figures = {
        "run --dry-run, s of CPU": cpu[0],
        "run more than the command alone, s of CPU": cpu[1] - cpu[2],
        "memory, MB": max(one.memory for one in [first, *check, *run]),
    }
    return 0 if verdicts(figures, LIMITS) else 1


def engine_in(cache: Path) -> Path:
    for folder in managed_folders(cache):
        if "cpu-0.23.0-" in folder.name:
            return folder / "bin" / "python"
    sys.exit(
        "there is no CPU engine in the cache: run `vpatch engine --vllm 0.23`, or give --python"
    )


if __name__ == "__main__":
    sys.exit(main())
