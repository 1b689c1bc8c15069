"""Measure `vpatch compat`: a release and all of them, anew and again.

    python benchmarks/compat.py [TARGET]

Every run is a process of its own, with a cache of its own that has the user's unpacked trees.
`anew` means that nothing else is in it. Ends with 1 where a limit is missed; limits are for CPU.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from measuring import VPATCH, Run, forget, machine, measure, own_cache, verdicts

# A plugin with 440 files, of the package index.
TARGET = "vllm-ascend==0.23.0.post1"
# 0.20.0 to 0.33.0.
RELEASES = 19
LIMITS = {
    "a release anew, the target included, s": 8.0,
    "the last release beside it, s": 6.0,
    "a further release of all, s": 3.0,
    "a release again, s": 0.5,
    f"{RELEASES} releases anew, s": 60.0,
    f"{RELEASES} releases again, s": 3.0,
    "memory, MB": 800.0,
}


def main() -> int:
    target = sys.argv[1] if len(sys.argv) > 1 else TARGET
    if Path(target).exists():
        target = str(Path(target).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        cache = own_cache(folder / "cache")

        def compat(*args: str) -> Run:
            command = [*VPATCH, "compat", target, "--offline", "--base", "0.23.0", *args]
            return measure(command, at=folder, ends=(0, 1))

        def fresh(*args: str) -> Run:
            forget(cache)
            shutil.rmtree(cache / "compat", ignore_errors=True)
            return compat(*args)

        one = fresh("--vllm", "0.23.0")
        two = fresh("--vllm", "0.23.0,0.33.0")
        again = compat("--vllm", "0.23.0,0.33.0")
        every = fresh("--all")
        every_again = compat("--all")
    print(f"{target}, {machine()}, on {os.uname().sysname}")
    figures = {
        "a release anew, the target included, s": one.cpu,
        # It differs most from the one that the target is for.
        "the last release beside it, s": two.cpu - one.cpu,
        "a further release of all, s": (every.cpu - one.cpu) / (RELEASES - 1),
        "a release again, s": again.cpu,
        f"{RELEASES} releases anew, s": every.cpu,
        f"{RELEASES} releases again, s": every_again.cpu,
        "memory, MB": max(run.memory for run in (one, two, every)),
    }
    return 0 if verdicts(figures, LIMITS) else 1


if __name__ == "__main__":
    sys.exit(main())
