"""The use case `smoke`: find the plan and what it runs on, run it, and write evidence."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vpatch.app import selection
from vpatch.app.cluster_options import ATTEMPTS, ClusterOptions
from vpatch.app.targets import (
    engine_target,
    folders_to_show,
    image_target,
    look_at_image,
    planned_trees,
    refuse_missing,
    release_asked,
)
from vpatch.app.verify_env import patched_environment
from vpatch.engine.environment import KINDS
from vpatch.errors import UsageError
from vpatch.evidence.collecting import collected, dated, refuse_name
from vpatch.evidence.subject import subject_of, subject_of_lock
from vpatch.harness.machine import this_machine
from vpatch.harness.models import given
from vpatch.harness.target import InstalledTarget
from vpatch.image.mode import laid_over_digests
from vpatch.smoke.cells import cells_of
from vpatch.smoke.prove import SmokeRequest, run_smoke
from vpatch.smoke.standard import standard_plan
from vpatch.util.extras import require
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.declare.smoke import Model, Smoke
    from vpatch.harness.machine import Machine
    from vpatch.harness.target import ExecutionTarget
    from vpatch.smoke.checks import Check


_STANDARD = "no recipe has a smoke plan for this vLLM: the standard plan runs (k=0 and k=3)"


@dataclass(frozen=True)
class SmokeOptions:
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
    """

    engine: str | None = None
    image: str | None = None
    python: str | None = None
    name: str | None = None
    plan: str | None = None
    model: str | None = None
    rounds: int | None = None
    port: int | None = None
    before: bool = False
    on: str | None = None
    attempts: int = ATTEMPTS
    resume: bool = False

    def refuse_conflicts(self) -> None:
        """Refuse options that have no effect together.

        Raises:
            UsageError: there are some.
        """
        if self.image is not None and self.python is not None:
            raise UsageError(
                "--image and --python name two things to run",
                hint="give one of them",
                code="cli.conflicting-options",
            )
        alone = [name for name in ("image", "python", "port") if getattr(self, name) is not None]
        self.cluster.refuse_conflicts(alone)

    @property
    def cluster(self) -> ClusterOptions:
        return ClusterOptions(self.on, self.attempts, self.resume)

    def models(self, smoke: Smoke) -> dict[str, Model]:
        return dict.fromkeys(smoke.models, given(self.model)) if self.model else smoke.models

    def order(
        self,
        context: Context,
        title: str,
        smoke: Smoke,
        machine: Machine,
        subject: list[dict[str, Any]],
        asked: dict[str, Any],
    ) -> SmokeRequest:
        return SmokeRequest(
            name=self.name or dated(title),
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

    record: dict[str, Any]
    folder: Path

    @property
    def passed(self) -> bool:
        """Whether every check with the patches passed."""
        return bool(self.record["result"] == "passed")


def smoke(
    context: Context,
    request: selection.Request,
    options: SmokeOptions,
    root: Path,
    *,
    on_result: Callable[[str, str, Sequence[Check]], None] | None = None,
) -> SmokeResult:
    """Run a plan on an engine or in an image, and write evidence into a new folder of `root`.

    Args:
        context: the project, its library and the cache.
        request: what is run; empty with an image, which says itself what is in it.
        options: how it is run.
        root: the folder of all evidence.
        on_result: called after each cell with its phase, its name and its checks.

    Raises:
        UsageError: the options contradict each other, or the recipe has no plan.
        VpatchError: the run could not be made. A failing check is not an error.
    """
    options.refuse_conflicts()
    if options.name is not None:
        refuse_name(root, options.name, "evidence")
    if options.on is not None:
        return _on_cluster(context, request, options, options.on, root, on_result or _ignore)
    with ExitStack() as stack:
        if options.image is None and options.python is None:
            order, target = engine_request(context, request, options, stack)
        elif request != selection.Request() or options.engine or options.before:
            raise UsageError(
                f"an {'image' if options.image else 'environment'} already says what it contains",
                where=options.image or options.python,
                hint="leave out --before, and options that name a source, patches or an engine",
                code="cli.conflicting-options",
            )
        elif options.python is not None:
            order, target = installed_request(context, options.python, options)
        else:
            order, target = image_request(context, str(options.image), options, stack)
        collecting = stack.enter_context(collected(root, order.name, numbered=options.name is None))
        order = replace(order, name=collecting.name)
        record = run_smoke(
            order, target, collecting.workdir, context.progress, on_result or _ignore
        )
    return SmokeResult(record, root / order.name)


def _on_cluster(
    context: Context,
    request: selection.Request,
    options: SmokeOptions,
    address: str,
    root: Path,
    on_result: Callable[[str, str, Sequence[Check]], None],
) -> SmokeResult:
    """Run a plan on the nodes of a cluster. Here the trees are planned, and nothing runs."""
    require("ray", "`--on`")
    # Only these runs need it.
    from vpatch.app.smoke_cluster import run_smoke_on_cluster  # noqa: PLC0415
    from vpatch.cluster.connection import address_of  # noqa: PLC0415

    address_of(address)
    with ExitStack() as stack:
        found, smoke = _planned_smoke(context, request, options)
        trees = planned_trees(context, found, stack, asked_for=bool(request.patches))
        title = f"{found[0].recipe or trees.version}-{options.engine or 'cluster'}"
        asked = _asked(context, request, options)
        subject = subject_of(trees.plans)
        order = options.order(context, title, smoke, this_machine(), subject, asked)
        collecting = stack.enter_context(collected(root, order.name, numbered=options.name is None))
        order = replace(order, name=collecting.name)
        record = run_smoke_on_cluster(
            order,
            trees,
            options.cluster,
            root,
            collecting.workdir,
            context.progress,
            on_result,
        )
    return SmokeResult(record, root / order.name)


def _planned_smoke(
    context: Context, request: selection.Request, options: SmokeOptions
) -> tuple[list[selection.Selection], Smoke]:
    """What is run, and by which plan."""
    found = selection.resolve(request, context.library)
    plan = options.plan or request.recipe or found[0].recipe
    if plan is None:
        context.progress.note(_STANDARD)
    context.require_trust((), plan)
    return found, smoke_plan_of(context, plan)


def _asked(context: Context, request: selection.Request, options: SmokeOptions) -> dict[str, Any]:
    """What was asked for, by the names of the command's options: evidence has it."""
    cluster = {"on": options.on and redact(options.on)} if options.on else {}
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


def _ignore(_phase: str, _name: str, _checks: Sequence[Check]) -> None:
    pass


def engine_request(
    context: Context,
    request: selection.Request,
    options: SmokeOptions,
    stack: ExitStack,
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run of patched trees over an engine's packages."""
    found, smoke = _planned_smoke(context, request, options)
    machine = this_machine()
    engine = options.engine or ("cuda" if machine.gpus else "cpu")
    kind = engine if engine in KINDS else context.own_engine(engine).kind
    models = options.models(smoke).values()
    refuse_missing(context, smoke.needs, models, machine, kind, release_asked(found))
    target, plans, version = engine_target(
        context, found, engine, stack, asked_for=bool(request.patches)
    )
    title = f"{found[0].recipe or version}-{kind}"
    asked = _asked(context, request, options) | {"engine": engine}
    return options.order(context, title, smoke, machine, subject_of(plans), asked), target


def installed_request(
    context: Context, python: str, options: SmokeOptions
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run of a vLLM that is patched where it is installed, and has a lock."""
    lock = patched_environment(context, python)
    plan = options.plan or lock.recipe
    if plan is None:
        context.progress.note(_STANDARD)
    context.require_trust((), plan)
    smoke = smoke_plan_of(context, plan)
    machine = this_machine()
    engine = context.own_engine(python)
    models = options.models(smoke).values()
    refuse_missing(context, smoke.needs, models, machine, engine.kind, engine.version)
    title = f"{lock.recipe or engine.version}-{engine.kind}-installed"
    asked = _asked(context, selection.Request(), options) | {"plan": plan}
    order = options.order(context, title, smoke, machine, subject_of_lock(lock), asked)
    return order, InstalledTarget(engine, laid_over_digests(lock))


def image_request(
    context: Context, name: str, options: SmokeOptions, stack: ExitStack
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run in containers of an image, which says itself what is in it."""
    machine = this_machine()
    gpus = bool(machine.gpus)
    found, docker = look_at_image(name, stack, gpus=gpus)
    # The plan is a part of what evidence is for: named, so that it can be found again.
    plan = options.plan or found.lock.recipe
    if plan is None:
        context.progress.note(_STANDARD)
    smoke = smoke_plan_of(context, plan)
    models = options.models(smoke).values()
    refuse_missing(context, smoke.needs, models, machine, found.kind, found.lock.source.version)
    seen = folders_to_show(context, plan, models, named=options.model is not None)
    target = image_target(found, docker, seen, gpus=gpus)
    title = f"{found.lock.recipe or found.version}-{found.kind}-image"
    asked = _asked(context, selection.Request(), options) | {"plan": plan}
    return options.order(context, title, smoke, machine, subject_of_lock(found.lock), asked), target


def smoke_plan_of(context: Context, recipe: str | None) -> Smoke:
    """Return the plan of a recipe; without a recipe, return the standard plan.

    Raises:
        UsageError: the recipe has no plan.
    """
    if recipe is None:
        return standard_plan()
    path = context.library.recipe(recipe)
    declared, _ = context.library.read_recipe(path)
    if declared.smoke is None:
        raise UsageError(
            "the recipe has no smoke plan",
            where=str(path),
            hint="add one under smoke, or give --plan",
            code="smoke.no-plan",
        )
    return declared.smoke
