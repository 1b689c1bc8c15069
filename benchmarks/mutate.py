"""Mutants of real releases: whether vpatch's decision fits the effect.

    python benchmarks/mutate.py [--seed N] [--count N] [--patch ID ...] [--release VERSION ...]
        [--jobs N] [--json FILE] [--show VERDICT] [--change]

Each mutant is a release with one or two changes as upstream makes them. An oracle, which knows
nothing of vpatch's own predicates, runs the code and tells whether the defect is there. Then vpatch
decides, and the verdict follows:

- right: what vpatch says fits, and what it edits is cured.
- silent: `upstreamed`, `applied` or `absent`, and the defect is there.
- wrong edit: the edited code does not compile, names what is not there, or has the defect still.
- twice: vpatch edits code that is cured already, and it stays cured.
- needless conflict: a conflict on a mutant that means the same, of a tree without a lock. needed
  conflict: any other.
- crash: an exception.

With `--change`, each edit of a patch that a `change` can say is one, if the patch then decides the
same on the pristine releases and makes the same bytes.

Families of mutations have one of four marks: harmless, curing, moving (the defect stays, in another
shape or at another place) and meaning (the meaning changed). A mutant counts only if it compiles
and the oracle agrees with the mark. See benchmarks/RESULTS.md.

Ends with 1 where vpatch crashes, or where a decision is wrong and not marked as a new shape.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from typing import TYPE_CHECKING

from mutants.bases import Grounds
from mutants.cases import BY_PATCH, CASES, Case
from mutants.judge import VERDICTS, Result, tried
from mutants.report import discards, shown, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A process makes the trees of a patch and release once for each chunk that it gets.
CHUNK = 100
_grounds: list[Grounds] = []
Task = tuple[str, str, int, tuple[int, ...], bool]


def tasks(options: argparse.Namespace) -> list[Task]:
    """Share mutants out: the same number for each patch and release, in chunks."""
    count, releases = options.count, options.release or []
    cases = [c for c in CASES if not options.patch or c.patch in options.patch]
    pairs = [(c.patch, r) for c in cases for r in (*c.examples, *(releases or c.releases))]
    shares = [count // len(pairs) + (i < count % len(pairs)) for i in range(len(pairs))]
    return [
        (
            patch,
            release,
            options.seed,
            tuple(range(first, min(first + CHUNK, share))),
            options.change,
        )
        for (patch, release), share in zip(pairs, shares, strict=True)
        for first in range(0, share, CHUNK)
    ]


def work(task: Task) -> list[Result]:
    patch, release, seed, numbers, is_change = task
    if not _grounds:
        # What is remembered has no circles, and to look for some takes longer than all the rest.
        gc.disable()
        _grounds.append(Grounds(as_changes=is_change))
    return [tried(_grounds[0], BY_PATCH[patch], release, seed, number) for number in numbers]


def conversions(cases: Iterable[Case]) -> str:
    """How many edits of some patches become changes."""
    grounds = Grounds(as_changes=True)
    for case in cases:
        grounds.patch(case)
    return ", ".join(f"{what} {number}" for what, number in sorted(grounds.changed.items()))


def run(todo: list[Task], jobs: int) -> Iterator[Result]:
    if jobs == 1:
        for task in todo:
            yield from work(task)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for results in pool.map(work, todo):
            yield from results


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="mutants in all (1000)")
    parser.add_argument("--patch", action="append", choices=sorted(BY_PATCH), metavar="ID")
    parser.add_argument("--release", action="append", metavar="VERSION")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to a file")
    parser.add_argument("--show", action="append", choices=VERDICTS, metavar="VERDICT")
    parser.add_argument("--limit", type=int, default=10, help="how many to show (10)")
    parser.add_argument("--change", action="store_true", help="with edits of the kind `change`")
    options = parser.parse_args()
    begun = time.monotonic()
    todo = tasks(options)
    if options.change:
        print(conversions({BY_PATCH[task[0]] for task in todo}))
    results = list(run(todo, options.jobs))
    seconds = time.monotonic() - begun
    print("\n".join(tables(results)))
    print(discards(results))
    print(f"{len(results)} mutants in {seconds:.0f} s")
    for result in [r for r in results if r.verdict in (options.show or [])][: options.limit]:
        print(shown(result))
    if options.json:
        options.json.write_text(json.dumps([vars(result) for result in results], indent=1))
    bad = {"silent", "wrong edit"}
    return int(any(r.verdict == "crash" or (r.verdict in bad and not r.new_shape) for r in results))


if __name__ == "__main__":
    sys.exit(main())
