"""Measure `vpatch checkpoint` on a checkpoint as large as real ones are, made of holes.

    python benchmarks/checkpoint.py [--rounds 5] [--graft-gb 4]

Two commands look at a DeepSeek-V4 of 100,000 tensors and 79 GB; one looks at 150 GB on a Hub that
runs here; then `graft-mtp` writes one tensor of that many GB, as it is and converted. Reported are
wall time in seconds, peak resident memory in MB, and what the Hub sent. It needs as much disk as
the graft writes. Ends with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.checkpoint import builders, fake_hub  # noqa: E402 - beside, and not installed

LIMITS = {
    "inspect, s": 5.0,
    "inspect, MB": 300.0,
    "inspect ORG/NAME, s": 3.0,
    "inspect ORG/NAME, MB sent": 5.0,
    "graft-mtp, MB": 1000.0,
}


def measure(*args: str | Path, ends_with: int, **further: str) -> tuple[float, float]:
    """Run `vpatch checkpoint` and return its wall time in s, and its peak memory in MB."""
    command = [sys.executable, "-m", "vpatch", "checkpoint", *map(str, args)]
    begin = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=os.environ | further,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != ends_with:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024 / 1e6


def report(what: str, runs: list[tuple[float, float]]) -> tuple[float, float]:
    walls, memories = zip(*runs, strict=True)
    wall, memory = statistics.median(walls), max(memories)
    print(f"{what:<28} {wall:6.2f} s ({min(walls):.2f} to {max(walls):.2f})  {memory:5.0f} MB")
    return wall, memory


def afar(workdir: Path, rounds: int) -> tuple[float, float]:
    """Look at 150 GB on a Hub; return the time in s, and the MB that the Hub sent for one look."""
    with fake_hub.running() as hub:
        name = hub.add("acme/large", builders.many_shards(workdir / "shards"))
        runs, sent = [], []
        for n in range(rounds):
            before = hub.sent
            home = {"HF_ENDPOINT": hub.url, "HF_HOME": str(workdir / f"home-{n}")}
            home |= {"HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1,localhost"}
            runs.append(measure("inspect", name, ends_with=1, **home))
            sent.append((hub.sent - before) / 1e6)
    wall, _ = report("inspect ORG/NAME", runs)
    print(f"{'':<28} {max(sent):6.2f} MB sent for 150 GB")
    return wall, max(sent)


def heads(folder: Path, gigabytes: float) -> tuple[Path, Path]:
    """Write an original whose head has one large tensor, and a conversion that dropped it."""
    large = {"model.mtp_layers.0.input_proj.weight": ("F32", (int(gigabytes * 1e9) // 4096, 1024))}
    config = builders.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    whole = builders.trunk() | builders.mimo_head() | large
    original = builders.write_checkpoint(folder / "original", config, whole)
    return original, builders.write_checkpoint(folder / "dropped", config, builders.trunk())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--graft-gb", type=float, default=4.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as workdir:
        large = builders.large_v4(Path(workdir) / "large")
        found = {}
        for name in ("inspect", "ignore-names"):
            runs = [measure(name, large, ends_with=1) for _ in range(asked.rounds)]
            found[f"{name}, s"], found[f"{name}, MB"] = report(name, runs)
        found["inspect ORG/NAME, s"], found["inspect ORG/NAME, MB sent"] = afar(
            Path(workdir), asked.rounds
        )
        for form in ("source", "trunk"):
            original, dropped = heads(Path(workdir) / form, asked.graft_gb)
            run = measure(
                "graft-mtp", dropped, "--from", original, "--tensor-format", form, ends_with=0
            )
            _, memory = report(f"graft-mtp --tensor-format {form}, {asked.graft_gb:g} GB", [run])
            found["graft-mtp, MB"] = max(memory, found.get("graft-mtp, MB", 0.0))
    for name, limit in LIMITS.items():
        verdict = "met" if found[name] <= limit else "missed"
        print(f"{name}: {found[name]:.2f}, at most {limit:g}: {verdict}")
    return int(any(found[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
