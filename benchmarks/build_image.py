"""Measure an overlay `vpatch build-image` side by side with what a user would do instead.

    python benchmarks/build_image.py --base IMAGE [--rounds 5]

IMAGE has an unpatched vLLM 0.23.0 and is here already. `vpatch build-image --vllm 0.23` on it takes
turns with `docker build` of two lines, which copy the same patched files over the package and look
at nothing. Wall times in seconds; what vpatch itself takes is all but the time between the
engine's first step and its last, in which the image is verified from inside. Layers are made anew
each time. All builds must have the same labels and the same touched files. Ends with 1 where a
limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VPATCH = [sys.executable, "-m", "vpatch"]
TAG, PLAIN = "vpatch-benchmark:ours", "vpatch-benchmark:plain"
LIMITS = {"build, s": 30.0, "vpatch itself, s": 5.0}


def docker(*words: str, at: Path | None = None) -> str:
    environment = os.environ | {"DOCKER_BUILDKIT": "0"}
    run = subprocess.run(
        ["docker", *words], cwd=at, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(f"docker {' '.join(words)} failed:\n{run.stderr}")
    return run.stdout


def forget(tag: str) -> None:
    """Remove an image and its layers, so that none of them is taken again."""
    if docker("images", "--quiet", tag):
        docker("rmi", "--force", tag)


def build(folder: Path, base: str) -> tuple[float, float]:
    """Build once; return the whole time, and what of it is vpatch's own."""
    begin = time.perf_counter()
    first = last = None
    with subprocess.Popen(
        [*VPATCH, "build-image", "--vllm", "0.23", "--base", base, "--tag", TAG, "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            if line.startswith("Step "):
                first = first or time.perf_counter()
                last = time.perf_counter()
        answer = process.stdout.read()
    end = time.perf_counter()
    if process.returncode or first is None:
        sys.exit(f"build-image failed:\n{answer}")
    return end - begin, end - begin - (last - first)


def facts(folder: Path) -> tuple[str, str]:
    """Return the labels of what was built, and the digests of all touched files in it."""
    lock = json.loads((folder / ".vpatch/vllm-0.23.0/vpatch.lock").read_text())
    script = "import vllm,hashlib,sys; from pathlib import Path; p=Path(vllm.__path__[0]).parent; "
    script += "print({f: hashlib.sha256((p/f).read_bytes()).hexdigest() for f in sys.argv[1:]})"
    files = [file["path"] for file in lock["files"]]
    digests = docker(
        "run", "--rm", "--network=none", "--entrypoint=python3", TAG, "-c", script, *files
    )
    return docker("inspect", "--format={{json .Config.Labels}}", TAG), digests.splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    ours, own, plain, seen = [], [], [], set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [*VPATCH, "apply", "--vllm", "0.23"], cwd=folder, check=True, capture_output=True
        )
        where = "import importlib.util as u; print(*u.find_spec('vllm').submodule_search_locations)"
        python = ["run", "--rm", "--network=none", "--entrypoint=python3", asked.base]
        package = docker(*python, "-c", where).strip()
        lock = json.loads((folder / ".vpatch/vllm-0.23.0/vpatch.lock").read_text())
        for file in lock["files"]:
            target = folder / "plain" / file["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / ".vpatch/vllm-0.23.0" / file["path"], target)
        (folder / "plain/Dockerfile").write_text(f"FROM {asked.base}\nCOPY vllm {package}\n")
        for _ in range(asked.rounds):
            forget(TAG)
            whole, mine = build(folder, asked.base)
            ours.append(whole)
            own.append(mine)
            seen.add(facts(folder))
            forget(PLAIN)
            begin = time.perf_counter()
            docker("build", "--quiet", "--tag", PLAIN, ".", at=folder / "plain")
            plain.append(time.perf_counter() - begin)
        forget(TAG)
        forget(PLAIN)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}; medians of {asked.rounds} rounds (least to most), in seconds")
    for what, values in (
        ("vpatch build-image, overlay, verified from inside", ours),
        ("  of which vpatch itself", own),
        ("docker build that copies the same files, unverified", plain),
    ):
        spread = f"({min(values):.2f} to {max(values):.2f})"
        print(f"{what:<52} {statistics.median(values):.2f}  {spread}")
    print(f"labels and digests of {len(lock['files'])} files: {len(seen)} of 1 kind")
    figures = {"build, s": max(ours), "vpatch itself, s": max(own)}
    met = len(seen) == 1
    for what, value in figures.items():
        met &= value < LIMITS[what]
        verdict = "met" if value < LIMITS[what] else "MISSED"
        print(f"{what}: {value:.2f} at most, under {LIMITS[what]:g}: {verdict}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
