"""Measure how long vpatch takes to read a build, side by side with what a user would do instead.

    python benchmarks/builds.py --wheel FILE.whl [--rounds 5]
    python benchmarks/builds.py --image NAME --package FOLDER [--rounds 5]

Each round has an empty cache: `vpatch status --offline --patch gate-up-proj-mapping` reads the
whole package and decides on one patch. It takes turns with `python -m zipfile` of the wheel, or
with `docker create` and `docker cp` of FOLDER, where the image has vLLM. Both write all files, and
nothing is decided after them. Then vpatch runs again with what the last round left in its cache. An
image has to be in the Docker Engine, whose own time is in the wall time alone. Wall and CPU times
in seconds, memory in MB. Ends with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import VPATCH, Run, cache_in, machine, measure, show, verdicts

LIMITS = {"CPU time of a wheel, s": 3.0, "memory, MB": 200.0}
_STATUS = [*VPATCH, "status", "--offline", "--patch", "gate-up-proj-mapping", "--vllm"]


def read_by_vpatch(folder: Path, source: str) -> Run:
    """Read a build that the cache in `folder` may have."""
    with cache_in(folder):
        return measure([*_STATUS, source], at=folder)


def unpack(folder: Path, wheel: Path) -> Run:
    return measure([sys.executable, "-m", "zipfile", "-e", str(wheel), "out"], at=folder)


def copy_out(folder: Path, image: str, package: str) -> Run:
    container = f"vpatch-benchmark-{folder.name}"
    try:
        return measure(
            ["docker", "create", "--name", container, image, "true"],
            ["docker", "cp", f"{container}:{package}", "out"],
            at=folder,
        )
    finally:
        measure(["docker", "rm", container], at=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    build = parser.add_mutually_exclusive_group(required=True)
    build.add_argument("--wheel", type=Path)
    build.add_argument("--image")
    parser.add_argument("--package", metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if bool(chosen.image) != bool(chosen.package):
        parser.error("--image and --package are given together")
    if chosen.wheel:
        wheel = chosen.wheel.absolute()
        source, size, other = f"wheel:{wheel}", wheel.stat().st_size, "python -m zipfile -e"
    else:
        asked = ["docker", "image", "inspect", "--format", "{{.Size}}", chosen.image]
        size = int(subprocess.check_output(asked))
        source, other = f"image:{chosen.image}", "docker create, docker cp"
    ours, theirs, again = [], [], []
    for _ in range(chosen.rounds):
        with tempfile.TemporaryDirectory() as name:
            ours.append(read_by_vpatch(Path(name), source))
            again.append(read_by_vpatch(Path(name), source))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if chosen.wheel:
                theirs.append(unpack(folder, wheel))
            else:
                theirs.append(copy_out(folder, chosen.image, chosen.package))
    print(f"{source.rpartition('/')[2]}, {size / 1e6:.0f} MB")
    print(f"{machine()}, {chosen.rounds} rounds: the median (the least to the most)\n")
    show("vpatch status, with an empty cache", ours)
    show("vpatch status, again", again)
    show(other, theirs)
    figures = {"memory, MB": max(run.memory for run in ours)}
    if chosen.wheel:
        figures["CPU time of a wheel, s"] = statistics.median(run.cpu for run in ours)
    sys.exit(not verdicts(figures, LIMITS))


if __name__ == "__main__":
    main()
