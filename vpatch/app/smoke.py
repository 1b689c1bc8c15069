"""From options to a smoke run: the plan, what it runs on, and the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.app import selection
from vpatch.app.targets import (
    engine_target,
    folders_to_show,
    image_target,
    look_at_image,
    refuse_missing,
)
from vpatch.engine.environment import KINDS
from vpatch.errors import UsageError
from vpatch.evidence.collecting import dated
from vpatch.evidence.subject import subject_of, subject_of_lock
from vpatch.harness.machine import this_machine
from vpatch.harness.models import given
from vpatch.smoke.cells import cells_of
from vpatch.smoke.prove import SmokeRequest
from vpatch.smoke.standard import standard_plan

if TYPE_CHECKING:
    from contextlib import ExitStack

    from vpatch.app.context import Context
    from vpatch.declare.smoke import Model, Smoke
    from vpatch.harness.machine import Machine
    from vpatch.harness.target import ExecutionTarget


_STANDARD = "no recipe has a smoke plan for this vLLM: the standard plan runs (k=0 and k=3)"


@dataclass(frozen=True)
class SmokeOptions:
    """What the command line says of a run, whatever it runs on."""

    name: str | None
    said: dict[str, Any]
    plan: str | None
    model: str | None
    rounds: int | None
    port: int | None
    before: bool

    def models(self, smoke: Smoke) -> dict[str, Model]:
        return dict.fromkeys(smoke.models, given(self.model)) if self.model else smoke.models

    def order(
        self,
        context: Context,
        title: str,
        smoke: Smoke,
        machine: Machine,
        subject: list[dict[str, Any]],
    ) -> SmokeRequest:
        return SmokeRequest(
            name=self.name or dated(title),
            asked=self.said,
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


def engine_request(
    context: Context,
    request: selection.Request,
    engine: str | None,
    asked: SmokeOptions,
    stack: ExitStack,
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run of patched trees over an engine's packages."""
    found = selection.resolve(request, context.library)
    plan = asked.plan or request.recipe or found[0].recipe
    if plan is None:
        context.progress.note(_STANDARD)
    context.require_trust((), plan)
    smoke = smoke_plan_of(context, plan)
    machine = this_machine()
    engine = engine or ("cuda" if machine.gpus else "cpu")
    asked.said["engine"] = engine
    kind = engine if engine in KINDS else context.own_engine(engine).kind
    refuse_missing(smoke.needs, asked.models(smoke).values(), machine, kind)
    target, plans, version = engine_target(
        context, found, engine, stack, asked_for=bool(request.patches)
    )
    title = f"{found[0].recipe or version}-{kind}"
    return asked.order(context, title, smoke, machine, subject_of(plans)), target


def image_request(
    context: Context, name: str, asked: SmokeOptions, stack: ExitStack
) -> tuple[SmokeRequest, ExecutionTarget]:
    """A run in containers of an image, which says itself what is in it."""
    machine = this_machine()
    gpus = bool(machine.gpus)
    found, docker = look_at_image(name, stack, gpus=gpus)
    # The plan is a part of what evidence is for: named, so that it can be found again.
    asked.said["plan"] = asked.plan or found.lock.recipe
    if asked.said["plan"] is None:
        context.progress.note(_STANDARD)
    smoke = smoke_plan_of(context, asked.said["plan"])
    models = asked.models(smoke).values()
    refuse_missing(smoke.needs, models, machine, found.kind)
    seen = folders_to_show(context, asked.said["plan"], models, named=asked.model is not None)
    target = image_target(found, docker, seen, gpus=gpus)
    title = f"{found.lock.recipe or found.version}-{found.kind}-image"
    return asked.order(context, title, smoke, machine, subject_of_lock(found.lock)), target


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
            "the recipe has no smoke plan", where=str(path), hint="add one under smoke, or --plan"
        )
    return declared.smoke
