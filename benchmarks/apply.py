"""Measure `vpatch apply` side by side with what a user would do instead.

    python benchmarks/apply.py [--rounds 9]

Warm `vpatch apply --vllm 0.23` and `git clone --shared` with `git am` of the same series take
turns, and so does `vpatch status` of one cached release. `apply` is also run from this repository.
Warm means that the tree is in the cache, and that vpatch has done the same before. What it takes
where everything is decided anew is measured as well. Reported are wall time and CPU time (user and
system, children included) in seconds, and peak resident memory in MB. vpatch uses a cache of its
own, with the user's unpacked trees. Ends with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import VPATCH, forget, machine, measure, own_cache, show, verdicts

from vpatch.source.cache import default_cache_folder

REPOSITORY = Path(__file__).resolve().parents[1]
VERSION = "0.23"
WHO = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
LIMITS = {
    "apply, times the wall time of clone and am": 1.2,
    "apply from the repository, times the same": 1.2,
    "status, s of CPU": 0.35,
    "memory, MB": 300.0,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    ours, inside, theirs, status, new, new_status = [], [], [], [], [], []
    user = default_cache_folder()
    with tempfile.TemporaryDirectory(prefix="vpatch-benchmark-", dir=user.parent) as name:
        folder = Path(name)
        cache = own_cache(folder / "cache")
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
            inside.append(measure([*apply, str(folder / f"inside-{number}")], at=REPOSITORY))
            status.append(measure([*VPATCH, "status", "--vllm", f"{VERSION}.0"], at=folder))
            forget(cache)
            new.append(measure([*apply, f"anew-{number}"], at=folder))
            new_status.append(measure([*VPATCH, "status", "--vllm", f"{VERSION}.0"], at=folder))
            # Both made the same, or the comparison means nothing.
            measure(["git", "-C", applied, "fetch", "-q", f"../{cloned}"], at=folder)
            measure(["git", "-C", applied, "diff", "--exit-code", "FETCH_HEAD"], at=folder)
    print(f"{machine()}; medians of {rounds} rounds (least to most)")
    show(f"vpatch apply --vllm {VERSION}, warm", ours)
    show("the same, from the repository", inside)
    show(f"git clone --shared, then git am of the same {len(series)} patches", theirs)
    show(f"vpatch status --vllm {VERSION}.0, warm", status)
    show(f"vpatch apply --vllm {VERSION}, decided anew", new)
    show(f"vpatch status --vllm {VERSION}.0, decided anew", new_status)
    wall = [statistics.median(run.wall for run in runs) for runs in (ours, inside, theirs)]
    everything = [*ours, *inside, *status, *new, *new_status]
    figures = {
        "apply, times the wall time of clone and am": wall[0] / wall[2],
        "apply from the repository, times the same": wall[1] / wall[2],
        "status, s of CPU": statistics.median(run.cpu for run in status),
        "memory, MB": max(run.memory for run in everything),
    }
    return 0 if verdicts(figures, LIMITS) else 1


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
