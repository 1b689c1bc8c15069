"""Behaviour tests of patches on many releases: one engine after the other, all patches in each."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from vpatch.commands.proofs.behaviour_records import (
    digest_of_test,
    record,
    recorded,
    refuse_unrecordable,
)
from vpatch.commands.proofs.usecase import (
    could_not_run,
    engine_of_tests,
    no_test,
    proof_plans,
    require_trust_of_tests,
    why_idle,
)
from vpatch.engine.environment import packages_beside, remove_engine
from vpatch.engine.overlay import as_released, differing
from vpatch.errors import UnavailableError, UsageError, VpatchError, combine
from vpatch.harness.behaviour import run_behaviour_test, run_once
from vpatch.library.shapes import BehaviourOnRelease
from vpatch.planning.footprint import digest_of_changes
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import exact_release, open_engine
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.declare.patch import Proof
    from vpatch.engine.environment import Engine
    from vpatch.harness.behaviour import ProofPlans, Run, TreeLabel
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context

_LONGEST_REASON = 300


@dataclass(frozen=True)
class ReleaseTest:
    """What one behaviour test showed on one release of vLLM.

    `tree` is the one that has the patch's code. `known` says that the result was recorded before;
    then and where nothing was asked, there are no `runs`. `seconds` is how long the runs took.
    """

    patch: Patch
    proof: Proof
    release: str
    tree: str
    found: BehaviourOnRelease
    known: bool = False
    runs: Mapping[str, Run] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The result for people, in a line."""
        outcome = f"recorded: {self.found.outcome}" if self.known else self.found.outcome
        engine = f"vLLM {self.release} ({self.found.engine})"
        duration = f"  {self.seconds:.0f} s" if self.runs else ""
        return (
            f"{outcome}  {self.patch.id}  {self.found.test}  {engine}  {self.found.state}{duration}"
        )

    @property
    def details(self) -> list[str]:
        """The reason or the problems for people, line by line."""
        return ("\n".join(self.problems) or self.found.reason or "").splitlines()


@dataclass(frozen=True)
class ReleaseCase:
    """A test that is to run on a release. `state` is that of the patch in `tree`.

    With `patched_only`, it runs once, on the patched tree of `plans`.
    """

    patch: Patch
    proof: Proof
    release: str
    test_digest: str
    tree: str
    state: State
    change_digest: str
    plans: ProofPlans
    # The release's own files that show the cure.
    released: Mapping[str, bytes] = field(default_factory=dict)
    patched_only: bool = False

    def found(
        self, outcome: Literal["holds", "contradicts", "not asked"], reason: str | None
    ) -> ReleaseTest:
        entry = BehaviourOnRelease(
            test=self.proof.test,
            engine=self.proof.engine,
            outcome=outcome,
            reason=reason,
            state=self.state.value,
            patch_digest=self.patch.digest,
            test_digest=self.test_digest,
            change_digest=self.change_digest,
        )
        return ReleaseTest(self.patch, self.proof, self.release, self.tree, entry)


@dataclass(frozen=True)
class ReleaseRun:
    """Which tests run on which releases.

    Attributes:
        patches: the tests of these patches run.
        engine: `cpu`, `cuda`, or the path of a Python.
        releases: exact releases of vLLM, in order.
        record: write each result to the patch's shapes.json, and skip what is recorded there.
        again: run also what is recorded.
        keep_engines: how many of the engines that this run makes stay in the cache.
    """

    patches: Sequence[Patch]
    engine: str
    releases: Sequence[str]
    record: bool = False
    again: bool = False
    keep_engines: int = 1


def releases_of(context: Context, vllm: str) -> list[str]:
    """Return the exact releases that `--vllm` names: `all`, or a list with commas."""
    if vllm == "all":
        return context.releases()
    return list(dict.fromkeys(exact_release(context, one) for one in vllm.split(",")))


def run_on_releases(context: Context, asked: ReleaseRun, *, named: bool) -> Generator[ReleaseTest]:
    """Run behaviour tests on one release after the other; yield each result when it is there.

    Where a patch is needed, its test runs on the pristine tree and on the patched one. Where it is
    upstreamed, the test runs once. Elsewhere there is nothing to ask. An engine that this call
    makes is removed as soon as `keep_engines` others are there.

    Raises:
        UsageError: a patch that was `named` has no test for this engine, a patch cannot be
            recorded, or a Python has another release.
        UnavailableError: the engine of a release cannot be made. The other releases have run.
    """
    own, kind = engine_of_tests(context, asked.engine)
    if own is not None:
        _refuse_others(own, asked)
    proofs = [(p, proof) for p in asked.patches for proof in p.declaration.proof]
    proofs = [(patch, proof) for patch, proof in proofs if proof.engine == kind]
    for patch in asked.patches if named else ():
        if all(patch is not proven for proven, _ in proofs):
            raise no_test(patch, kind)
    if asked.record:
        refuse_unrecordable(asked.patches)
    require_trust_of_tests(context, asked.patches, kind)
    errors: list[VpatchError] = []
    fresh: list[Path] = []
    try:
        for number, release in enumerate(asked.releases, 1):
            place = f"release {number} of {len(asked.releases)}"
            yield from _on_release(context, asked, proofs, release, place, errors, fresh)
    finally:
        _remove_but(fresh, asked.keep_engines, context)
    if errors:
        raise combine(errors)


def _refuse_others(own: Engine, asked: ReleaseRun) -> None:
    for release in asked.releases:
        if release != own.version:
            raise UsageError(
                f"it has vLLM {own.version}, not {release}",
                where=asked.engine,
                hint=f"give --vllm {own.version}, or --engine cpu for all releases",
                code="engine.wrong-version",
            )


def _remove_but(fresh: list[Path], count: int, context: Context) -> None:
    while len(fresh) > count:
        remove_engine(fresh.pop(0), context.progress)


def _on_release(
    context: Context,
    asked: ReleaseRun,
    proofs: Sequence[tuple[Patch, Proof]],
    release: str,
    place: str,
    errors: list[VpatchError],
    fresh: list[Path],
) -> Iterator[ReleaseTest]:
    with ExitStack() as stack:
        cases: list[ReleaseCase] = []
        for patch, proof in proofs:
            digest = digest_of_test(context, patch, proof, release)
            known = recorded(patch, proof, release, digest) if asked.record else None
            if known is not None and not asked.again:
                tree, entry = known
                yield ReleaseTest(patch, proof, release, tree, entry, known=True)
                continue
            case, idle = _case(context, patch, proof, release, digest, stack)
            if idle is None:
                cases.append(case)
            else:
                yield _record(context, asked, case.found("not asked", idle))
        if not cases:
            return
        # Room for this engine first.
        _remove_but(fresh, max(asked.keep_engines - 1, 0), context)
        try:
            engine = stack.enter_context(open_engine(context, asked.engine, release))
        except UnavailableError as error:
            errors.append(error)
            context.progress.note(f"vLLM {release} is left out: {error.what}")
            return
        except VpatchError as error:
            if error.code != "engine.no-cpu-build":
                raise
            missing = [case.found("not asked", error.what) for case in cases]
            yield from (_record(context, asked, one) for one in missing)
            return
        if engine.fresh:
            fresh.append(engine.folder)
        for number, case in enumerate(cases, 1):
            count = f" (test {number} of {len(cases)}, {place})"
            yield _record(context, asked, run_case(context, case, engine, count))


def _record(context: Context, asked: ReleaseRun, one: ReleaseTest) -> ReleaseTest:
    if asked.record:
        record(context, one.patch, one.tree, one.release, one.found)
    return one


def _case(
    context: Context, patch: Patch, proof: Proof, release: str, digest: str, stack: ExitStack
) -> tuple[ReleaseCase, str | None]:
    """Decide a patch for a release; return its case, and why there is nothing to ask, if so."""
    plans = proof_plans(context, patch, proof, release, stack)
    mine = [(p, d) for p in plans.all_after for d in p.decisions if d.patch.id == patch.id]
    rank = [State.NEEDED, State.UPSTREAMED]
    mine.sort(key=lambda one: rank.index(one[1].state) if one[1].state in rank else len(rank))
    own_plan, decision = mine[0]
    released: dict[str, bytes] = {}
    if decision.state is State.UPSTREAMED and own_plan.pin.tree == "vllm":
        released = _proof_files(context, patch, proof, release, stack)
    change = digest_of_changes(decision.changes)
    case = ReleaseCase(
        patch, proof, release, digest, own_plan.pin.tree, decision.state, change, plans, released
    )
    idle = why_idle(patch, plans.all_after)
    if idle is None or (decision.state is State.UPSTREAMED and not idle[1].state.stops):
        return case, proof.refusal(release)
    other = idle[1]
    name = "" if other.patch.id == patch.id else f"{other.patch.id} is {other.state}: "
    return case, name + other.reason


def _proof_files(
    context: Context, patch: Patch, proof: Proof, release: str, stack: ExitStack
) -> dict[str, bytes]:
    """Return the files of a release that show that it has a patch."""
    tree = stack.enter_context(context.tree(parse_vllm(release)))
    wanted = with_required([*proof.on_top_of, patch.id], context.library)
    # Only a plan with lines names the places of edits that have no work left.
    full = plan([p for p in wanted if "vllm" in p.declaration.needed_in], tree, findings_for="all")
    paths = {f.path for d in full.decisions if d.patch.id == patch.id for f in d.findings}
    return {path: tree.read(path) for path in paths if path is not None}


def run_case(context: Context, case: ReleaseCase, engine: Engine, count: str = "") -> ReleaseTest:
    """Run a test in an engine, and return what it showed; `count` says which one of how many."""
    patch, proof, plans = case.patch, case.proof, case.plans
    beside = packages_beside(engine, proof.packages, context.progress, offline=context.offline)
    released = differing(engine, case.released)
    for path in sorted(as_released(engine, plans.after) | released):
        context.progress.note(
            f"this build of {case.release} has another {path}: the release's runs"
        )
    test, trees = context.trust.copy_of(patch.folder), plans.trees(beside)
    task = context.progress.start(f"Running {proof.test} of {patch.id} in {engine}{count}")
    started = time.monotonic()
    try:
        if case.patched_only or case.state is State.UPSTREAMED:
            label: TreeLabel = "patched" if case.patched_only else "pristine"
            only, problems = run_once(test, proof, engine, trees, label, released)
            runs = {str(label): only}
        else:
            both = run_behaviour_test(test, proof, engine, trees)
            runs, problems = {"pristine": both.pristine, "patched": both.patched}, both.problems
    except OSError as error:
        raise could_not_run(patch, proof, error) from error
    task.done()
    left_out = [f"{name} is not asked: {why}" for name, why in proof.left_out(case.release).items()]
    reason = "\n".join(text.partition("\n")[0][:_LONGEST_REASON] for text in problems or left_out)
    release_test = case.found("contradicts" if problems else "holds", reason or None)
    seconds = time.monotonic() - started
    return replace(release_test, runs=runs, problems=problems, seconds=seconds)
