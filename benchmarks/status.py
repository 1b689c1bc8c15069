"""Measure `vpatch status` of many patches and releases.

    python benchmarks/status.py [--rounds 3] [--releases 0.22.0,0.23.0] [--only CASE]

Every run is a process of its own, with a cache of its own that has the user's unpacked trees.
`anew` means that nothing else is in it. Ends with 1 where a limit is missed. Limits are for all
releases on two cores.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from made_library import write_library
from measuring import (
    VPATCH,
    Run,
    bytes_received,
    cache_in,
    forget,
    machine,
    measure,
    own_cache,
    show,
    spread,
    verdicts,
)

from vpatch.source.cache import default_cache_folder
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = Path(__file__).resolve().parents[1] / "patches"
MADE_FROM = "0.23.0"
# A typical patch, and the one that takes longest.
EDITED = ("mtp-proj-prefix", "deepgemm-next-n-3")
SIZES = (9, 25, 50)
LIMITS = {
    "fresh, status --all, s": 2.0,
    "fresh, audit --all, s": 3.0,
    "fresh, status --all, MB of network": 1.0,
    "JSON anew, times the text": 1.1,
    "JSON remembered, times the text": 1.1,
    "vpatch.api anew, times the text": 1.1,
    "vpatch.api remembered, times the text": 1.1,
    "without records, 1 patch and 1 release, s of CPU": 1.0,
    "without records, 1 patch, s of CPU": 3.0,
    "without records, 9 patches and 1 release, s of CPU": 2.0,
    "without records, 9 patches, s of CPU": 20.0,
    "without records, 35 patches, s of CPU": 45.0,
    "150 patches and 1 release anew, s": 15.0,
    "150 patches and 1 release remembered, s": 0.5,
    "150 patches applied, s": 30.0,
    "with an own codemod.py, anew, s": 10.0,
    "with an own codemod.py, remembered, s": 1.5,
    "after an edit of one patch, s": 3.0,
    "with a new release, s": 2.0,
    "50 patches anew, s": 45.0,
    "50 patches remembered, s": 2.5,
    "one release remembered, s of CPU": 0.35,
    "memory, MB": 300.0,
}
API = """
from vpatch import api
with api.open_context(offline=True) as context:
    api.status(context, RELEASES)
"""
# Decides on patches, with nothing of decisions.json.
ANEW = """
from vpatch.workspace.context import Context
from vpatch.workspace.plan_pool import plans_for
from vpatch.workspace.selection import Selection
from vpatch.source.spec import parse_vllm
with Context(offline=True, uses_records=False) as context:
    patches = tuple(context.library.load(PATCHES))
    jobs = [Selection(parse_vllm(release), patches) for release in RELEASES]
    plans_for(context, jobs, findings_for="none", each_alone=True)
"""
CODEMOD = """\
import libcst as cst
from vpatch.codemods import SiteTransformer


class Codemod(SiteTransformer):
    kinds = (cst.FunctionDef,)

    def edit(self, original, updated):
        if original.name.value == "made_by_nobody":
            self.add(original, todo=False)
        return updated
"""
OWN = """\
id: own
title: "[Misc] Look at a function"
why: It is there to measure what a codemod of one's own costs.
symptoms: [none]
needed-in: {vllm: ">=0.20"}
concerns: {text: class SpeculativeConfig}
edits:
  - codemod: codemod.py
    contains: [SpeculativeConfig, draft_model_config]
    files: vllm/config/speculative.py
remove-when: never
"""


class Benchmark:
    """The cases. Each prints its runs and returns figures."""

    def __init__(self, folder: Path, releases: list[str], rounds: int) -> None:
        self.folder = folder
        self.releases = releases
        self.rounds = rounds
        self.cache = own_cache(folder / "cache")
        self.memory = 0.0

    def status(self, at: Path, *options: str, releases: list[str] | None = None) -> Run:
        asked = ["--vllm", ",".join(releases or self.releases), "--offline", *options]
        # A conflict, or a claim that the code contradicts, is a finding and no fault.
        run = measure([*VPATCH, "status", *asked], at=at, ends=(0, 1))
        self.memory = max(self.memory, run.memory)
        return run

    def project(self, name: str) -> Path:
        """A folder with an own patch library, which is the library's."""
        folder = self.folder / name
        shutil.copytree(LIBRARY, folder / "patches")
        return folder

    def anew_and_again(self, what: str, at: Path, *options: str) -> tuple[float, float]:
        anew, again = [], []
        for _ in range(self.rounds):
            forget(self.cache)
            anew.append(self.status(at, *options))
            again.append(self.status(at, *options))
        show(f"{what}, anew", anew)
        show(f"{what}, remembered", again)
        return _wall(anew), _wall(again)

    def fresh(self) -> dict[str, float]:
        """A cache with nothing in it, and the user's own index."""
        figures: dict[str, float] = {}
        for name in ("status", "audit"):
            runs, received = [], []
            for _ in range(self.rounds):
                empty = self.folder / "empty"
                shutil.rmtree(empty, ignore_errors=True)
                with cache_in(empty):
                    before = bytes_received()
                    runs.append(measure([*VPATCH, name, "--all"], at=self.folder, ends=(0, 1)))
                    received.append((bytes_received() - before) / 1e6)
            show(f"fresh, {name} --all", runs)
            print(f"  network, MB {spread(received, 2)}")
            figures[f"fresh, {name} --all, s"] = _wall(runs)
            if name == "status":
                figures["fresh, status --all, MB of network"] = statistics.median(received)
        return figures

    def forms(self) -> dict[str, float]:
        """The same question as text, as JSON, and by the API."""
        asked = [*VPATCH, "status", "--offline", "--vllm", ",".join(self.releases)]
        listed = ", ".join(map(repr, self.releases))
        commands = {
            "text": asked,
            "JSON": [*asked, "--json"],
            "vpatch.api": [sys.executable, "-c", API.replace("RELEASES", listed)],
        }
        anew: dict[str, list[Run]] = {name: [] for name in commands}
        again: dict[str, list[Run]] = {name: [] for name in commands}
        for _ in range(self.rounds * 3):
            for name, command in commands.items():
                forget(self.cache)
                anew[name].append(measure(command, at=self.folder, ends=(0, 1)))
                again[name].append(measure(command, at=self.folder, ends=(0, 1)))
        figures: dict[str, float] = {}
        for name in commands:
            show(f"{name}, anew", anew[name])
            show(f"{name}, remembered", again[name])
            if name != "text":
                ratio = _wall(anew[name]) / _wall(anew["text"])
                figures[f"{name} anew, times the text"] = ratio
                ratio = _wall(again[name]) / _wall(again["text"])
                figures[f"{name} remembered, times the text"] = ratio
        return figures

    def without_records(self) -> dict[str, float]:
        library = Context(offline=True).library
        cases = {
            "1 patch and 1 release": (["mtp-proj-prefix"], ["0.28.0"]),
            "1 patch": (["mtp-proj-prefix"], self.releases),
            "9 patches and 1 release": (library.usual, ["0.28.0"]),
            "9 patches": (library.usual, self.releases),
            "35 patches": (sorted(library.patches), self.releases),
        }
        figures: dict[str, float] = {}
        for name, (patches, releases) in cases.items():
            code = ANEW.replace("PATCHES", repr(patches)).replace("RELEASES", repr(releases))
            runs = []
            for _ in range(self.rounds):
                forget(self.cache)
                runs.append(measure([sys.executable, "-c", code], at=self.folder))
            show(f"without records, {name}", runs)
            cpu = statistics.median(run.cpu for run in runs)
            figures[f"without records, {name}, s of CPU"] = cpu
            self.memory = max(self.memory, *(run.memory for run in runs))
        return figures

    def own_codemod(self) -> dict[str, float]:
        at = self.folder / "own"
        (at / "patches" / "own").mkdir(parents=True)
        (at / "patches" / "own" / "patch.yaml").write_text(OWN)
        (at / "patches" / "own" / "codemod.py").write_text(CODEMOD)
        what = "9 patches and one with its own codemod.py"
        anew, again = self.anew_and_again(what, at, "--trust")
        return {
            "with an own codemod.py, anew, s": anew,
            "with an own codemod.py, remembered, s": again,
        }

    def edited(self) -> dict[str, float]:
        at = self.project("edited")
        self.status(at, "--trust")
        slowest = 0.0
        for name in EDITED:
            file = at / "patches" / name / "patch.yaml"
            text = file.read_text()
            runs = []
            for number in range(self.rounds):
                # Another digest, and the same meaning.
                file.write_text(text.replace("why: |\n", f"why: |\n  Edition {number}.\n", 1))
                runs.append(self.status(at, "--trust"))
            show(f"after an edit of {name}", runs)
            slowest = max(slowest, _wall(runs))
        return {"after an edit of one patch, s": slowest}

    def new_release(self) -> dict[str, float]:
        runs = []
        for _ in range(self.rounds):
            forget(self.cache)
            self.status(self.folder, releases=self.releases[:-1])
            runs.append(self.status(self.folder))
        show(f"with {self.releases[-1]}, the others remembered", runs)
        return {"with a new release, s": _wall(runs)}

    def many(self) -> dict[str, float]:
        with Context(offline=True).tree(parse_vllm(MADE_FROM)) as tree:
            files = dict(tree.package_files)
        figures: dict[str, float] = {}
        for size in SIZES:
            at = self.project(f"of-{size}")
            theirs = len(list(LIBRARY.glob("*/patch.yaml")))
            write_library(at / "patches", files, size - theirs)
            anew, again = self.anew_and_again(f"{size} patches", at, "--trust")
            if size == max(SIZES):
                figures = {"50 patches anew, s": anew, "50 patches remembered, s": again}
        return figures

    def vendor(self) -> dict[str, float]:
        """As many patches as a vendor's plugin carries, as one series on one release."""
        release = "0.28.0"
        with Context(offline=True).tree(parse_vllm(release)) as tree:
            files = dict(tree.package_files)
        at = self.folder / "vendor"
        ids = write_library(at / "patches", files, 150)
        options = ["--trust", *(word for patch in ids for word in ("--patch", patch))]
        forget(self.cache)
        anew = [self.status(at, *options, releases=[release])]
        again = [self.status(at, *options, releases=[release]) for _ in range(self.rounds)]
        forget(self.cache)
        apply = [*VPATCH, "apply", "--vllm", release, "--offline", *options]
        applied = [measure(apply, at=at)]
        show("150 patches and 1 release, anew", anew)
        show("150 patches and 1 release, remembered", again)
        show("150 patches applied, anew", applied)
        self.memory = max(self.memory, applied[0].memory)
        return {
            "150 patches and 1 release anew, s": _wall(anew),
            "150 patches and 1 release remembered, s": _wall(again),
            "150 patches applied, s": _wall(applied),
        }

    def one(self) -> dict[str, float]:
        self.status(self.folder, releases=[MADE_FROM])
        runs = [self.status(self.folder, releases=[MADE_FROM]) for _ in range(self.rounds * 3)]
        show(f"{MADE_FROM}, remembered", runs)
        return {"one release remembered, s of CPU": statistics.median(r.cpu for r in runs)}


def _wall(runs: list[Run]) -> float:
    return statistics.median(run.wall for run in runs)


CASES: dict[str, Callable[[Benchmark], dict[str, float]]] = {
    "fresh": Benchmark.fresh,
    "forms": Benchmark.forms,
    "without-records": Benchmark.without_records,
    "vendor": Benchmark.vendor,
    "own-codemod": Benchmark.own_codemod,
    "edited": Benchmark.edited,
    "new-release": Benchmark.new_release,
    "many": Benchmark.many,
    "one": Benchmark.one,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--releases", help="some releases, separated by commas; all by default")
    parser.add_argument("--only", choices=list(CASES), action="append", help="one case")
    args = parser.parse_args()
    releases = args.releases.split(",") if args.releases else Context(offline=True).releases()
    # Beside the user's cache, whose files are linked.
    place = default_cache_folder().parent
    with tempfile.TemporaryDirectory(prefix="vpatch-benchmark-", dir=place) as name:
        benchmark = Benchmark(Path(name), releases, args.rounds)
        print(f"{machine()}; {len(releases)} releases; medians of {args.rounds} rounds")
        figures: dict[str, float] = {}
        for case in args.only or CASES:
            figures |= CASES[case](benchmark)
    return 0 if verdicts({**figures, "memory, MB": benchmark.memory}, LIMITS) else 1


if __name__ == "__main__":
    sys.exit(main())
