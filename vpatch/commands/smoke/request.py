"""A smoke run that is asked for: its options, and the place and the plan that they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.smoke.cells import cells_of
from vpatch.commands.smoke.point import SmokeRequest
from vpatch.commands.smoke.run import INTERRUPTED
from vpatch.commands.smoke.standard import standard_plan
from vpatch.errors import ConflictingOptionsError, UsageError
from vpatch.harness.models import given
from vpatch.runs.cluster_options import ATTEMPTS, Here, OnCluster, RunOptions
from vpatch.util.urls import redact
from vpatch.workspace import selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.declare.smoke import Model, Smoke
    from vpatch.evidence.records import OptionValue, SmokeRecord, SubjectTree
    from vpatch.harness.machine import Machine
    from vpatch.workspace.context import Context

_STANDARD = "the standard plan runs (k=0 and k=3)"


@dataclass(frozen=True)
class Installed:
    """The patched vLLM of a Python of this machine runs all cells."""

    python: str


@dataclass(frozen=True)
class InImage:
    """Containers of an image run all cells, on this machine."""

    image: str


Where = Here | Installed | InImage | OnCluster


@dataclass(frozen=True)
class SmokeOptions(RunOptions):
    """What a plan runs on, and how.

    Attributes:
        engine: `cpu`, `cuda`, or the path of a Python; by default `cuda` if there is a GPU.
        image: the tag of an image that `vpatch build-image` built, instead of an engine.
        python: a Python in which vpatch's wheel or patch is installed, instead of an engine.
        name: the name of the evidence; by default the recipe, the engine and the time.
        plan: the recipe whose smoke plan is run; by default that of the source.
        model: a checkpoint that every cell runs: a folder, or an id on the Hub.
        rounds: how often each cell runs; by default as the plan says.
        port: the port of the servers; by default a free one.
        before: whether the pristine tree runs first.
        on: the address of a Ray cluster that runs the cells, instead of this machine.
        attempts: how often a cell is tried there, before its loss is a finding.
        resume: whether cells whose evidence is kept are taken from there.
        storage: where nodes of a cluster leave large files, as fsspec names it.
    """

    python: str | None = None
    name: str | None = None
    plan: str | None = None
    model: str | None = None
    rounds: int | None = None
    port: int | None = None
    before: bool = False

    def plan_of(self, context: Context, recipe: str | None) -> str | None:
        """Return the recipe whose plan runs, if any. A note says that it is the standard plan.

        `recipe` is that of what is run.

        Raises:
            UsageError: `--plan` names a recipe without a plan.
        """
        if self.plan is not None:
            if _declared_smoke(context, self.plan) is None:
                raise UsageError(
                    "the recipe has no smoke plan",
                    where=str(context.library.recipe(self.plan)),
                    hint="add one under smoke, or leave out --plan: then the standard plan runs",
                    code="smoke.no-plan",
                )
        elif recipe is None:
            context.progress.note(f"no recipe has a smoke plan for this vLLM: {_STANDARD}")
        elif _declared_smoke(context, recipe) is None:
            context.progress.note(f"the recipe {recipe} has no smoke plan: {_STANDARD}")
        return self.plan or recipe

    def models(self, smoke: Smoke) -> dict[str, Model]:
        return dict.fromkeys(smoke.models, given(self.model)) if self.model else smoke.models

    def smoke_request(
        self,
        context: Context,
        title: str,
        smoke: Smoke,
        machine: Machine,
        subject: Sequence[SubjectTree],
        asked: Mapping[str, OptionValue],
    ) -> SmokeRequest:
        return SmokeRequest(
            name=title,
            asked=asked,
            subject=subject,
            smoke=smoke,
            models=self.models(smoke),
            cells=cells_of(smoke, rounds=self.rounds),
            machine=machine,
            patches=context.library.load_all(),
            before=self.before,
            port=self.port,
            digests=context.cache.answers("checkpoints"),
        )


@dataclass(frozen=True)
class SmokeResult:
    """Evidence that was written: `record` is its content, `folder` is where it is."""

    record: SmokeRecord
    folder: Path

    @property
    def passed(self) -> bool:
        """Whether every check with the patches passed."""
        return self.record.result == "passed"

    @property
    def interrupted(self) -> bool:
        """Whether somebody interrupted the run. What ran until then is in the record."""
        return interrupted_in(self.record)


def interrupted_in(record: SmokeRecord) -> bool:
    """Whether somebody interrupted the run that a record is of."""
    rounds = (one for cell in record.cells for one in cell.rounds or ())
    return any(one.skipped == INTERRUPTED for one in rounds)


def where_of(options: SmokeOptions, request: selection.Request) -> Where:
    """Decide where a run happens.

    Raises:
        UsageError: options have no effect together.
    """
    if options.image is not None and options.python is not None:
        raise ConflictingOptionsError(
            "--image and --python name two things to run", hint="give one of them"
        )
    where = options.where(python=options.python, port=options.port)
    if options.image is None and options.python is None:
        return where
    if request != selection.Request() or options.engine or options.before:
        raise ConflictingOptionsError(
            f"an {'image' if options.image else 'environment'} already says what it contains",
            where=options.image or options.python,
            hint="leave out --before, and options that name a source, patches or an engine",
        )
    if options.python is not None:
        return Installed(options.python)
    return where if isinstance(where, OnCluster) else InImage(str(options.image))


def planned_smoke(
    context: Context, request: selection.Request, options: SmokeOptions
) -> tuple[list[selection.Selection], Smoke]:
    """What is run, and by which plan."""
    selections = selection.resolve(request, context.library)
    selection.note_library(context, selections)
    plan = options.plan_of(context, request.recipe or selections[0].recipe)
    context.require_trust([patch for job in selections for patch in job.patches], plan)
    return selections, smoke_plan_of(context, plan)


def asked_of(
    context: Context, request: selection.Request, options: SmokeOptions
) -> dict[str, OptionValue]:
    """What was asked for, by the names of the command's options: evidence has it."""
    cluster: dict[str, OptionValue] = {"on": redact(options.on)} if options.on else {}
    if request.library:
        cluster["library"] = True
    if options.attempts != ATTEMPTS:
        cluster["attempts"] = str(options.attempts)
    return cluster | {
        "vllm": request.vllm and redact(request.vllm),
        "recipe": request.recipe,
        "tree": [redact(tree) for tree in request.trees],
        "patches": [str(folder) for folder in context.patches_dirs],
        "recipes": [str(folder) for folder in context.recipes_dirs],
        "patch": request.patches,
        "engine": options.engine,
        "image": options.image,
        "python": options.python,
        "plan": options.plan,
        "model": options.model,
        "rounds": options.rounds,
        "before": options.before,
    }


def smoke_plan_of(context: Context, recipe: str | None) -> Smoke:
    """Return the plan of a recipe; the standard plan if it has none, or there is no recipe."""
    return (_declared_smoke(context, recipe) if recipe is not None else None) or standard_plan()


def _declared_smoke(context: Context, recipe: str) -> Smoke | None:
    return context.library.read_recipe(context.library.recipe(recipe))[0].smoke
