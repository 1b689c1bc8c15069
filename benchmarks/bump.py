"""Measure `vpatch bump` of a recipe with all patches of the library, for each step to a release.

    python benchmarks/bump.py [--steps 0.24.0,0.25.0]

Every run is a process of its own, with a cache of its own that has the user's unpacked trees. The
first run of a step finds nothing else in it, and the second one finds what the first one kept. Ends
with 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from measuring import VPATCH, forget, machine, measure, own_cache, verdicts
from packaging.version import Version

from vpatch.workspace.context import Context

LIMITS = {"the longest second run, s": 10.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", help="the releases that the steps lead to  [default: all]")
    options = parser.parse_args()
    with Context(offline=True) as context:
        releases = sorted(context.releases(), key=Version)
        patches = sorted(context.library.patches)
    wanted = options.steps.split(",") if options.steps else releases[1:]
    print(f"{len(patches)} patches; {machine()}")
    again: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        cache = own_cache(Path(place) / "cache")
        recipe = Path(place) / "project" / "recipes" / "all.yaml"
        recipe.parent.mkdir(parents=True)
        for old, new in pairwise(releases):
            if new not in wanted:
                continue
            recipe.write_text(f"vllm: {old}\npatches: [{', '.join(patches)}]\n", encoding="utf-8")
            command = [*VPATCH, "bump", "all", "--to", new, "--offline"]
            forget(cache)
            # A patch that somebody has to look at is a finding and no fault.
            runs = [measure(command, at=recipe.parents[1], ends=(0, 1)) for _ in range(2)]
            again.append(runs[1].wall)
            print(
                f"{old} to {new}: first {runs[0].wall:.1f} s, second {runs[1].wall:.1f} s, "
                f"{max(run.memory for run in runs):.0f} MB",
                flush=True,
            )
    return 0 if verdicts({"the longest second run, s": max(again)}, LIMITS) else 1


if __name__ == "__main__":
    sys.exit(main())
