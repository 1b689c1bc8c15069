"""What a bump changes is tested before it is written: examples, behaviour tests and smoke plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
    from collections.abc import Iterator, Sequence

    from vpatch.workspace.context import Context

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


@dataclass(frozen=True)
class BumpProof:
    """What to test on the new release, by which engine.

    Attributes:
        version: the release.
        patches: those that change, or whose code does.
        gone: those of them that are taken out.
        recipes: those whose smoke plans run.
        unsettled: recipes that wait for a person.
        engine: `cpu`, `cuda` or a Python. None takes one that the cache has, if any.
    """

    version: str
    patches: tuple[str, ...]
    gone: frozenset[str]
    recipes: tuple[str, ...]
    unsettled: tuple[str, ...]
    engine: str | None


def prove(context: Context, asked: BumpProof) -> list[ProofStep]:
    """Test what a bump changes, in the project as the bump makes it.

    Raises:
        VpatchError: the engine that was named cannot be used.
    """
    engine, version = asked.engine, asked.version
    examples = (_examples(context, one) for one in asked.patches if one not in asked.gone)
    steps = [step for some in examples for step in some]
    steps += [
        ProofStep(f"vpatch smoke --recipe {name}", "not run", "the recipe is unsettled")
        for name in asked.unsettled
    ]
    chosen = engine or _cached_engine(context, version)
    if chosen is None:
        reason = f"vpatch engine --vllm {version} makes an engine"
        steps.append(ProofStep("behaviour tests and smoke plans", "not run", reason))
        return steps
    try:
        steps += _behaviour(context, asked.patches, chosen, version)
        for name in asked.recipes:
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


def _examples(context: Context, patch_id: str) -> Iterator[ProofStep]:
    try:
        results = list(run_examples(context.library.patch(patch_id)))
    except UsageError as error:
        if error.code != "library.no-example":
            raise
        yield ProofStep(f"vpatch test {patch_id}", "not run", "it has no example")
        return
    failures = [f"{result.name}: {text}" for result in results for text in result.failures]
    reason = "; ".join(failures) or counted(len(results), "example")
    yield ProofStep(f"vpatch test {patch_id}", "fails" if failures else "holds", reason)


def _cached_engine(context: Context, version: str) -> str | None:
    kinds = ("cuda", "cpu") if this_machine().gpus else ("cpu",)
    cached = (kind for kind in kinds if has_engine(KINDS[kind], version, context.cache.folder))
    return next(cached, None)


def _behaviour(
    context: Context, changed: Sequence[str], engine: str, version: str
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
