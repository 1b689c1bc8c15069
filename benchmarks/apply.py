"""Measure `vpatch apply` side by side with what a user would do instead.

    python benchmarks/apply.py [--rounds 9]

Warm `vpatch apply --vllm 0.23` and `git clone --shared` with `git am` of the same series take
turns, and so does `vpatch status` of one cached release. Warm means that the tree is in the cache,
and that vpatch has done the same before. What it takes where a patch has just been edited, and all
is decided anew, is measured as well. Reported are wall time and CPU time (user and system, children
included) in seconds, and peak resident memory in MB. Nothing is kept but what vpatch has in its
cache. Ends with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from vpatch.source.cache import default_cache_folder

VPATCH = [sys.executable, "-m", "vpatch"]
VERSION = "0.23"
WHO = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
LIMITS = {
    "apply, times the wall time of clone and am": 2.0,
    "status, s of CPU": 1.0,
    "memory, MB": 300.0,
}


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    memory: float


def measure(*commands: list[str], at: Path) -> Run:
    """Run commands one after the other and add up their times; the memory is the largest."""
    wall = cpu = memory = 0.0
    for command in commands:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=at, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall += time.perf_counter() - begin
        if status:
            sys.exit(f"{' '.join(command)} failed:\n{process.stderr.read().decode()}")
        process.stderr.close()
        cpu += usage.ru_utime + usage.ru_stime
        memory = max(memory, usage.ru_maxrss / 1024)
    return Run(wall, cpu, memory)


def spread(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f}  ({low:.{digits}f} to {high:.{digits}f})"


def show(name: str, runs: list[Run]) -> None:
    print(f"{name}")
    print(f"  wall, s     {spread([run.wall for run in runs], 3)}")
    print(f"  CPU, s      {spread([run.cpu for run in runs], 3)}")
    print(f"  memory, MB  {spread([run.memory for run in runs], 0)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    ours, theirs, status, new, new_status = [], [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        series = prepare(folder)
        # Nothing is deleted between rounds: ext4 avoids inodes that were freed just now, and the
        # search for others costs whoever comes next several seconds.
        for number in range(rounds):
            applied, cloned = f"applied-{number}", f"cloned-{number}"
            clone = ["git", "clone", "--quiet", "--shared", "base.git", cloned]
            am = ["git", "-C", cloned, *WHO, "am", "--quiet", *series]
            apply = [*VPATCH, "apply", "--vllm", VERSION, "--checkout"]
            ours.append(measure([*apply, applied], at=folder))
            theirs.append(measure(clone, am, at=folder))
            status.append(measure([*VPATCH, "status", "--vllm", f"{VERSION}.0"], at=folder))
            forget()
            new.append(measure([*apply, f"anew-{number}"], at=folder))
            new_status.append(measure([*VPATCH, "status", "--vllm", f"{VERSION}.0"], at=folder))
            # Both made the same, or the comparison means nothing.
            measure(["git", "-C", applied, "fetch", "-q", f"../{cloned}"], at=folder)
            measure(["git", "-C", applied, "diff", "--exit-code", "FETCH_HEAD"], at=folder)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}; medians of {rounds} rounds (least to most)")
    show(f"vpatch apply --vllm {VERSION}, warm", ours)
    show(f"git clone --shared, then git am of the same {len(series)} patches", theirs)
    show(f"vpatch status --vllm {VERSION}.0, warm", status)
    show(f"vpatch apply --vllm {VERSION}, decided anew", new)
    show(f"vpatch status --vllm {VERSION}.0, decided anew", new_status)
    wall = [statistics.median(run.wall for run in runs) for runs in (ours, theirs)]
    figures = {
        "apply, times the wall time of clone and am": wall[0] / wall[1],
        "status, s of CPU": statistics.median(run.cpu for run in status),
        "memory, MB": max(run.memory for run in ours + status + new + new_status),
    }
    met = True
    for what, value in figures.items():
        met &= value <= LIMITS[what]
        verdict = "met" if value <= LIMITS[what] else "MISSED"
        print(f"{what}: {value:.2f}, at most {LIMITS[what]:g}: {verdict}")
    return 0 if met else 1


def forget() -> None:
    """Make vpatch decide anew."""
    shutil.rmtree(default_cache_folder() / "plans")


def prepare(folder: Path) -> list[str]:
    """Fill the cache, and make the repository and the series that git is to apply."""
    measure([*VPATCH, "apply", "--vllm", VERSION, "--checkout", "first"], at=folder)
    measure([*VPATCH, "status", "--vllm", f"{VERSION}.0"], at=folder)
    clone = ["git", "clone", "--quiet", "--bare", "--branch=base", "--single-branch"]
    measure([*clone, "first", "base.git"], at=folder)
    export = ["git", "-C", "first", "format-patch", "--quiet", "-o", "../series", "base..vpatch"]
    measure(export, at=folder)
    return sorted(str(path) for path in (folder / "series").iterdir())


if __name__ == "__main__":
    sys.exit(main())
