"""Changes beside the code that a patch reads: whether vpatch still says that it is sure.

    python benchmarks/beside.py [--count 240] [--seed 0] [--patch ID]... [--release VERSION]...

Each mutant is a release, or a release with the patch, with one change next to the definitions of a
shape and none in them. Each change breaks what the patch relies on, or could. Of each mutant,
three answers are judged:

- beside: the grade is wrong if it is `on record` or `known shape`.
- VEX: the status of an advisory that the patch resolves is wrong if it is `fixed` or
  `not_affected`.
- bump: from the release to the mutant, the verdict is wrong if it is `keep`, `retire` or
  `not needed`.

A harmless mutant changes no meaning. It is noisy if the grade is not `known shape`. Ends with 1
where an answer is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from mutants.around import HARMLESS, MODES, MODES_OF_FILES, cores_of, sources_of

from vpatch.commands.audit.judge import Status
from vpatch.commands.audit.judge import judge as judge_advisories
from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.verdict import Verdict
from vpatch.commands.bump.verdict import judge as judge_bump
from vpatch.library.advisories import shipped_advisories
from vpatch.planning.plan import plan
from vpatch.planning.view import View
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mutants.around import Files

    from vpatch.library.advisories import Advisory
    from vpatch.planning.state import Decision, FindingsFor, Plan
    from vpatch.source.tree import Tree

RELEASES = ("0.23.0", "0.28.0")
IDLE = {mode.__name__ for mode in HARMLESS}
CLEARED = {Status.FIXED, Status.NOT_AFFECTED}
PASSED = {Verdict.KEEP, Verdict.RETIRE, Verdict.NOT_NEEDED}


@dataclass(frozen=True)
class Judged:
    """What vpatch says of a mutant, and which of the answers are wrong.

    `asked` and `wrong` have some of `beside`, `vex`, `bump` and `harmless`.
    """

    mode: str
    grade: str
    asked: frozenset[str]
    wrong: frozenset[str]
    where: str


@dataclass(frozen=True)
class Ground:
    """A tree to change, and what vpatch says of it as it is."""

    tree: Tree
    decision: Decision
    is_patched: bool

    def mutants(self) -> Iterator[tuple[str, list[Files]]]:
        """The mutants of each mode."""
        sources = list(sources_of(self.decision, self.tree))
        cores = [core for source in sources for core in cores_of(self.decision, source)]
        for mode in [*MODES, *HARMLESS]:
            yield mode.__name__, [files for core in cores for files in mode(core)]
        for of_file in MODES_OF_FILES:
            yield of_file.__name__, [files for source in sources for files in of_file(source)]


class Grounds:
    """Makes the trees of patches, and judges what vpatch says of their mutants."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._advisories = shipped_advisories().all
        self._trees: dict[str, Tree] = {}
        self.context = Context()

    def of(self, patch: str, release: str) -> Iterator[Ground]:
        """A release, and what the patch makes of it; none where its shape is not known."""
        if release not in self._trees:
            spec = parse_vllm(release)
            self._trees[release] = self._stack.enter_context(self.context.tree(spec))
        tree = self._trees[release]
        decision = self._decide(patch, tree, findings_for="all").decisions[0]
        if decision.shape is None or not decision.shape.known:
            return
        yield Ground(tree, decision, is_patched=False)
        if decision.changes:
            files = {path: change.after for path, change in decision.changes.items()}
            made = ChangedTree(tree, files, frozenset([patch]))
            applied = self._decide(patch, made, findings_for="all").decisions[0]
            yield Ground(made, applied, is_patched=True)

    def _decide(self, patch: str, tree: Tree, findings_for: FindingsFor = "none") -> Plan:
        (one,) = self.context.library.load([patch])
        answers = self.context.answers
        return plan([one], tree, findings_for=findings_for, alone=[patch], answers=answers)

    def judged(self, ground: Ground, mode: str, files: Files) -> Judged:
        """What vpatch says of one mutant."""
        mutant = ChangedTree(ground.tree, files, ground.tree.carried)
        planned = self._decide(ground.decision.patch.id, mutant)
        (decision,) = planned.decisions
        is_sure = decision.sureness is not None and not decision.is_unsure
        answers: dict[str, bool] = {}
        if mode in IDLE:
            answers["harmless"] = not is_sure
        else:
            answers["beside"] = is_sure
            if decision.patch.cures:
                found = judge_advisories(self._resolved(decision), planned)
                answers["vex"] = any(one.status in CLEARED for one in found)
            if not ground.is_patched:
                answers["bump"] = self._bumped(ground, decision, mutant) in PASSED
        where = (
            f"{ground.tree.pin.version} {decision.patch.id} "
            f"{'patched' if ground.is_patched else 'pristine'}: {decision.state}, {[*files]}"
        )
        wrong = frozenset(name for name, is_wrong in answers.items() if is_wrong)
        grade = str(decision.sureness or decision.state)
        return Judged(mode, grade, frozenset(answers), wrong, where)

    def _resolved(self, decision: Decision) -> list[Advisory]:
        names = {name for one in decision.patch.cures for name in (one.id, *one.aliases)}
        return [one for one in self._advisories if not one.names.isdisjoint(names)]

    def _bumped(self, ground: Ground, new: Decision, mutant: Tree) -> Verdict:
        answers = self.context.answers
        sides = (
            ReleaseSide(ground.decision, View(ground.tree, answers=answers)),
            ReleaseSide(new, View(mutant, answers=answers)),
        )
        pins = (ground.tree.pin, mutant.pin)
        return judge_bump(ground.decision, new, pins, changed_code(*sides)).verdict


def run(ids: Sequence[str], releases: Sequence[str], seed: int, count: int) -> Iterator[Judged]:
    """Try mutants of patches in releases until so many changes beside the code are judged.

    A round takes one mutant of each mode for each patch and release, in an order by chance.
    """
    chance = random.Random(seed)  # noqa: S311 - it must be the same each time
    with ExitStack() as stack:
        grounds = Grounds(stack)
        pairs = [(patch, release) for patch in ids for release in releases]
        chance.shuffle(pairs)
        left = count
        for patch, release in pairs:
            for ground in grounds.of(patch, release):
                for mode, mutants in ground.mutants():
                    if mutants and left > 0:
                        yield grounds.judged(ground, mode, chance.choice(mutants))
                        left -= mode not in IDLE
            if left <= 0:
                return


def summary(results: Sequence[Judged]) -> Iterator[str]:
    """A line for each mode, and a line for each kind of answer."""
    for mode in [*MODES, *MODES_OF_FILES, *HARMLESS]:
        own = [one for one in results if one.mode == mode.__name__]
        grades = dict(sorted(Counter(one.grade for one in own).items()))
        yield f"{mode.__name__:10} {len(own):4} mutants: {grades}"
    for name in ("beside", "vex", "bump", "harmless"):
        asked = sum(name in one.asked for one in results)
        wrong = sum(name in one.wrong for one in results)
        yield f"{wrong} of {asked} answers are wrong: {name}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=240, help="changes beside the code (240)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patch", action="append", metavar="ID")
    parser.add_argument("--release", action="append", metavar="VERSION")
    asked = parser.parse_args()
    begun = time.monotonic()
    ids = asked.patch or sorted(Context().library.patches)
    results = []
    for one in run(ids, asked.release or RELEASES, asked.seed, asked.count):
        results.append(one)
        if one.wrong:
            print(
                f"{one.mode}: {', '.join(sorted(one.wrong))}: {one.grade}; {one.where}", flush=True
            )
    print("\n".join(summary(results)))
    print(f"{len(results)} mutants in {time.monotonic() - begun:.0f} s")
    return int(any(one.wrong - {"harmless"} for one in results))


if __name__ == "__main__":
    sys.exit(main())
