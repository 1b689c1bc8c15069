"""What the benchmarks of commands share: a process's times and memory, and a cache of their own."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.source.cache import default_cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

VPATCH = [sys.executable, "-m", "vpatch"]
# The kinds of the cache that hold what was found out before.
_REMEMBERED = ("plans", "contents", "patches")
# Where a user runs vpatch, its bytecode is there.
_UNUSUAL = "PYTHONDONTWRITEBYTECODE"


@dataclass(frozen=True)
class Run:
    """Wall and CPU time in seconds, and the resident memory of the largest process in MB."""

    wall: float
    cpu: float
    memory: float


def measure(*commands: list[str], at: Path, ends: tuple[int, ...] = (0,)) -> Run:
    """Run commands one after the other and add up their times; the memory is the largest.

    CPU time is user and system time, with that of children.
    """
    wall = cpu = memory = 0.0
    environment = {name: value for name, value in os.environ.items() if name != _UNUSUAL}
    for command in commands:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=at, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        # What is left unread would stop the command.
        said = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.stderr.close()
        wall += time.perf_counter() - begin
        if os.waitstatus_to_exitcode(status) not in ends:
            sys.exit(f"{' '.join(command)} failed:\n{said}")
        cpu += usage.ru_utime + usage.ru_stime
        memory = max(memory, usage.ru_maxrss / 1024)
    return Run(wall, cpu, memory)


def own_cache(folder: Path) -> Path:
    """Make vpatch use a cache in `folder`, with the user's unpacked trees and indexes alone.

    The trees are links to the user's files, which vpatch never writes to.
    """
    user = default_cache_folder()
    if not (user / "trees").is_dir():
        sys.exit("there is no tree in the cache yet: run `vpatch status --all` first")
    shutil.copytree(user / "trees", folder / "trees", copy_function=os.link)
    if (user / "index").is_dir():
        shutil.copytree(user / "index", folder / "index")
    os.environ["VPATCH_CACHE_DIR"] = str(folder)
    return folder


@contextmanager
def cache_in(folder: Path) -> Iterator[None]:
    """Make vpatch use another folder for its cache, for a while."""
    before = os.environ.get("VPATCH_CACHE_DIR")
    os.environ["VPATCH_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["VPATCH_CACHE_DIR"]
        else:
            os.environ["VPATCH_CACHE_DIR"] = before


def bytes_received() -> int:
    """Return the bytes that all network devices of this machine have received; Linux alone."""
    rows = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return sum(int(row.partition(":")[2].split()[0]) for row in rows)


def forget(cache: Path) -> None:
    """Make vpatch find everything anew."""
    for kind in _REMEMBERED:
        shutil.rmtree(cache / kind, ignore_errors=True)


def spread(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f}  ({low:.{digits}f} to {high:.{digits}f})"


def show(name: str, runs: list[Run]) -> None:
    print(f"{name}")
    print(f"  wall, s     {spread([run.wall for run in runs], 3)}")
    print(f"  CPU, s      {spread([run.cpu for run in runs], 3)}")
    print(f"  memory, MB  {spread([run.memory for run in runs], 0)}", flush=True)


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def verdicts(figures: dict[str, float], limits: dict[str, float]) -> bool:
    """Print each figure with its limit; return whether all limits are met."""
    for what, value in figures.items():
        verdict = "met" if value <= limits[what] else "MISSED"
        print(f"{what}: {value:.2f}, at most {limits[what]:g}: {verdict}")
    return all(value <= limits[what] for what, value in figures.items())
