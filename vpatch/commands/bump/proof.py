"""What a bump changes is tested before it is written: examples, behaviour tests and smoke plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.commands.bump.verdict import Verdict
from vpatch.commands.proofs.releases import ReleaseRun, run_on_releases
from vpatch.commands.smoke.usecase import SmokeOptions, smoke
from vpatch.engine.environment import has_engine
from vpatch.engine.kinds import KINDS
from vpatch.errors import ManyErrors, UnavailableError, UsageError, VpatchError
from vpatch.harness.machine import this_machine
from vpatch.trust.decision import UntrustedError
from vpatch.util.extras import require
from vpatch.util.plural import counted
from vpatch.workspace.examples import run_examples
from vpatch.workspace.selection import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.commands.bump.report import BumpReport
    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.workspace.context import Context

_GONE = frozenset([Verdict.RETIRE, Verdict.NOT_NEEDED])
_EVIDENCE = "evidence"


@dataclass(frozen=True)
class ProofStep:
    """One thing that was run, or not: what, how it ended, and why or where to read on."""

    what: str
    outcome: Literal["holds", "fails", "not run"]
    reason: str = ""

    @property
    def line(self) -> str:
        return f"{self.outcome}  {self.what}" + (f": {self.reason}" if self.reason else "")


def prove(
    context: Context, report: BumpReport, names: Mapping[str, str], engine: str | None
) -> list[ProofStep]:
    """Test what a bump changes: the patches with another verdict than keep, and their recipes.

    Args:
        context: the project as the bump makes it.
        report: what the bump means for each patch.
        names: the new names of the recipes.
        engine: `cpu`, `cuda` or a Python. None takes one that the cache has, if any.

    Raises:
        VpatchError: the engine that was named cannot be used.
    """
    changed = {one.id: one for one in report.patches if one.verdict is not Verdict.KEEP}
    steps = [step for one in changed.values() for step in _examples(context, one)]
    version = report.recipes[0].new.version or ""
    chosen = engine or _cached_engine(context, version)
    if chosen is None:
        reason = f"vpatch engine --vllm {version} makes an engine"
        steps.append(ProofStep("behaviour tests and smoke plans", "not run", reason))
        return steps
    try:
        steps += _behaviour(context, changed, chosen, version)
        for name in names.values():
            steps += _smoke(context, name, chosen)
    except VpatchError as error:
        if engine is not None or not _is_lacking(error):
            raise
        steps.append(ProofStep("behaviour tests and smoke plans", "not run", error.what))
    return steps


def _is_lacking(error: VpatchError) -> bool:
    """Whether something is missing that nobody asked for: trust, a package, or a checkpoint."""
    if isinstance(error, ManyErrors):
        return all(map(_is_lacking, error.errors))
    return isinstance(error, (UnavailableError, UntrustedError))


def refuse_failed(steps: list[ProofStep]) -> None:
    """Refuse to write what does not hold.

    Raises:
        VpatchError: a step failed.
    """
    failed = [step for step in steps if step.outcome == "fails"]
    if failed:
        lines = "".join(f"\n  {step.line}" for step in failed)
        raise VpatchError(
            f"nothing is written, because {counted(len(failed), 'proof')} failed:{lines}",
            hint="correct the patch, or give --no-proof to look at the branch",
            code="bump.proof-failed",
        )


def _examples(context: Context, one: PatchBump) -> Iterator[ProofStep]:
    if one.verdict in _GONE:
        return
    try:
        results = list(run_examples(context.library.patch(one.id)))
    except UsageError as error:
        if error.code != "library.no-example":
            raise
        yield ProofStep(f"vpatch test {one.id}", "not run", "it has no example")
        return
    failures = [f"{result.name}: {text}" for result in results for text in result.failures]
    reason = "; ".join(failures) or counted(len(results), "example")
    yield ProofStep(f"vpatch test {one.id}", "fails" if failures else "holds", reason)


def _cached_engine(context: Context, version: str) -> str | None:
    kinds = ("cuda", "cpu") if this_machine().gpus else ("cpu",)
    cached = (kind for kind in kinds if has_engine(KINDS[kind], version, context.cache.folder))
    return next(cached, None)


def _behaviour(
    context: Context, changed: Mapping[str, PatchBump], engine: str, version: str
) -> list[ProofStep]:
    kind = engine if engine in KINDS else context.own_engine(engine).kind
    patches = [context.library.patch(patch_id) for patch_id in changed]
    able = [p for p in patches if any(one.engine == kind for one in p.declaration.proof)]
    steps = [
        ProofStep(f"vpatch test {patch.id} --engine {kind}", "not run", "it has no behaviour test")
        for patch in patches
        if patch not in able
    ]
    if not able:
        return steps
    require("engine", "a behaviour test")
    for one in run_on_releases(context, ReleaseRun(able, engine, [version]), named=False):
        what = f"vpatch test {one.patch.id} --engine {kind} --vllm {version}"
        reason = "; ".join([one.found.test, *one.details])
        outcomes = {"holds": "holds", "contradicts": "fails", "not asked": "not run"}
        steps.append(ProofStep(what, outcomes[one.found.outcome], reason))  # type: ignore[arg-type]
    return steps


def _smoke(context: Context, name: str, engine: str) -> list[ProofStep]:
    what = f"vpatch smoke --recipe {name}"
    declared, _ = context.library.read_recipe(context.library.recipe(name))
    if declared.smoke is None:
        return [ProofStep(what, "not run", "the recipe has no smoke plan")]
    require("engine", "a smoke plan")
    root = context.project.folder / _EVIDENCE
    result = smoke(context, Request(recipe=name), SmokeOptions(engine=engine), root)
    reason = f"evidence in {_EVIDENCE}/{result.folder.name}"
    return [ProofStep(what, "holds" if result.passed else "fails", reason)]
