"""The use case `smoke`: find the plan and what it runs on, run it, and write evidence."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from vpatch.commands.install.verify_env import patched_environment
from vpatch.commands.smoke.points import PointsRun
from vpatch.commands.smoke.prove import run_smoke
from vpatch.commands.smoke.request import (
    InImage,
    Installed,
    SmokeOptions,
    SmokeResult,
    asked_of,
    planned_smoke,
    smoke_plan_of,
    where_of,
)
from vpatch.evidence.collecting import collected, dated, refuse_name, refuse_unwritable
from vpatch.evidence.subject import subject_trees, subject_trees_of_locks
from vpatch.harness.machine import this_machine
from vpatch.harness.target import InstalledTarget
from vpatch.image.mode import laid_over_digests
from vpatch.runs.cluster_options import Here, OnCluster
from vpatch.runs.matrix import matrix_of
from vpatch.runs.targets import (
    engine_here,
    engine_target,
    folders_to_show,
    image_target,
    look_at_image,
    refuse_missing,
    release_asked,
)
from vpatch.workspace import selection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.checks import Check
    from vpatch.commands.smoke.point import SmokeRequest
    from vpatch.harness.target import ExecutionTarget
    from vpatch.workspace.context import Context

__all__ = ["SmokeOptions", "SmokeResult", "engine_request", "smoke"]


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
        UsageError: the options contradict each other, or `--plan` names a recipe without a plan.
        VpatchError: the run could not be made. A failing check is not an error.
    """
    where = where_of(options, request)
    if options.name is not None:
        refuse_name(root, options.name, "evidence")
    refuse_unwritable(root)
    on_result = on_result or (lambda *_: None)
    matrix = matrix_of(context, request)
    points = PointsRun(context, request, options, matrix, root, on_result)
    with ExitStack() as stack:
        match where:
            case OnCluster():
                return points.on_cluster(where)
            case Here() if matrix is not None:
                return points.matrix_here(where, matrix)
            case Here():
                smoke_request, target = engine_request(context, request, options, where, stack)
            case Installed():
                smoke_request, target = installed_request(context, where.python, options)
            case InImage():
                smoke_request, target = image_request(context, where.image, options, stack)
        name = options.name or dated(smoke_request.name)
        collecting = stack.enter_context(collected(root, name, numbered=options.name is None))
        smoke_request = replace(smoke_request, name=collecting.name)
        record = run_smoke(smoke_request, target, collecting.workdir, context.progress, on_result)
    return SmokeResult(record, root / smoke_request.name)


def engine_request(
    context: Context,
    request: selection.Request,
    options: SmokeOptions,
    where: Here,
    stack: ExitStack,
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run of patched trees over an engine's packages."""
    selections, smoke_plan = planned_smoke(context, request, options)
    machine = this_machine()
    engine, kind = engine_here(context, where.engine, machine)
    models = options.models(smoke_plan).values()
    refuse_missing(context, smoke_plan.needs, models, machine, kind, [release_asked(selections)])
    target, plans, version = engine_target(
        context, selections, engine, stack, asked_for=bool(request.patches)
    )
    title = f"{selections[0].recipe or version}-{kind}"
    asked = asked_of(context, request, options) | {"engine": engine}
    return options.smoke_request(
        context, title, smoke_plan, machine, subject_trees(plans), asked
    ), target


def installed_request(
    context: Context, python: str, options: SmokeOptions
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run of a vLLM that is patched where it is installed, and has a lock."""
    lock = patched_environment(context, python)
    plan = options.plan_of(context, lock.recipe)
    context.require_trust((), plan)
    smoke_plan = smoke_plan_of(context, plan)
    machine = this_machine()
    engine = context.own_engine(python)
    models = options.models(smoke_plan).values()
    refuse_missing(context, smoke_plan.needs, models, machine, engine.kind, [engine.version])
    title = f"{lock.recipe or engine.version}-{engine.kind}-installed"
    asked = asked_of(context, selection.Request(), options) | {"plan": plan}
    smoke_request = options.smoke_request(
        context, title, smoke_plan, machine, subject_trees_of_locks(lock), asked
    )
    return smoke_request, InstalledTarget(engine, laid_over_digests(lock))


def image_request(
    context: Context, name: str, options: SmokeOptions, stack: ExitStack
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run in containers of an image, which says itself what is in it."""
    machine = this_machine()
    gpus = bool(machine.gpus)
    image, docker = look_at_image(name, stack, gpus=gpus)
    # The plan is a part of what evidence is for: named, so that it can be found again.
    plan = options.plan_of(context, image.lock.recipe)
    smoke_plan = smoke_plan_of(context, plan)
    models = options.models(smoke_plan).values()
    refuse_missing(context, smoke_plan.needs, models, machine, image.kind, [image.version])
    seen = folders_to_show(context, plan, models, named=options.model is not None)
    target = image_target(image, docker, seen, gpus=gpus)
    title = f"{image.lock.recipe or image.version}-{image.kind}-image"
    asked = asked_of(context, selection.Request(), options) | {"plan": plan}
    return options.smoke_request(
        context, title, smoke_plan, machine, subject_trees_of_locks(*image.locks), asked
    ), target
