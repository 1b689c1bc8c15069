"""vpatch smoke: proof on a real engine, with and without speculative decoding."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch import jobs
from vpatch.cli import render
from vpatch.cli.grounds import (
    engine_ground,
    folders_to_show,
    image_ground,
    look_at_image,
    refuse_missing,
)
from vpatch.cli.output import style
from vpatch.cli.session import (
    Session,
    engine_option,
    json_option,
    library_options,
    request_from,
    source_options,
    written_in_project,
)
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.yamlfile import read_yaml
from vpatch.engine.environment import KINDS
from vpatch.errors import ExitCode, UsageError
from vpatch.smoke.cells import cells_of
from vpatch.smoke.checks import verdict_of
from vpatch.smoke.collecting import collected, dated, refuse_name
from vpatch.smoke.machine import this_machine
from vpatch.smoke.models import given
from vpatch.smoke.prove import Order, prove
from vpatch.smoke.report import cures_of
from vpatch.smoke.standard import standard_plan
from vpatch.smoke.subject import subject_of, subject_of_lock
from vpatch.source.urls import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.declare.smoke import Model, Smoke
    from vpatch.smoke.checks import Check
    from vpatch.smoke.machine import Machine
    from vpatch.smoke.prove import Ground

_STANDARD = "no recipe has a smoke plan for this vLLM: the standard plan runs (k=0 and k=3)"
_COLOURS = {"pass": "green", "fail": "red", "not run": "yellow"}


@click.command("smoke")
@source_options
@library_options
@engine_option
@click.option(
    "--image", metavar="TAG", help="Run in containers of this image, from vpatch build-image."
)
@click.option("--plan", metavar="RECIPE", help="Take the smoke plan of another recipe.")
@click.option("--model", metavar="PATH|ID", help="Run this checkpoint in every cell.")
@click.option("--before", is_flag=True, help="Run the pristine tree first, and compare.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    help="How often to run each cell; speeds are judged from 3 on.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Of the servers  [default: a free one]")
@click.option("--name", help="Of the evidence  [default: RECIPE-ENGINE-TIME]")
@click.option(
    "--to",
    "root",
    type=click.Path(path_type=Path),
    default=written_in_project("evidence"),
    help="The folder that evidence goes to  [default: evidence in the project]",
)
@json_option
def command(
    vllm: str | None,
    recipe: str | None,
    trees: tuple[str, ...],
    only: tuple[str, ...],
    patches: tuple[Path, ...],
    recipes: tuple[Path, ...],
    engine: str | None,
    image: str | None,
    plan: str | None,
    model: str | None,
    rounds: int | None,
    port: int | None,
    name: str | None,
    root: Path,
    *,
    before: bool,
    offline: bool,
    as_json: bool,
) -> ExitCode:
    """Run a patched vLLM as its recipe's smoke plan says, and write down what came of it.

    Where there is no recipe, a standard plan runs: k=0 and k=3, offline and as a server.

    Each cell of the plan is a start of a real engine: with its number of speculative tokens, and
    offline or as a server. Without a checkpoint of yours, tiny ones are made, whose tokens and
    acceptance are known in advance. Nothing of the engine's own files is touched.

    Ends with 1 where a check fails with the patches; what fails before is what they are for.
    """
    session = Session(patches, recipes, offline)
    said: dict[str, Any] = {
        "vllm": vllm and redact(vllm),
        "recipe": recipe,
        "tree": [redact(tree) for tree in trees],
        "patches": [str(folder) for folder in patches],
        "recipes": [str(folder) for folder in recipes],
        "patch": only,
        "engine": engine,
        "image": image,
        "plan": plan,
        "model": model,
        "rounds": rounds,
        "before": before,
    }
    if name is not None:
        refuse_name(root, name, "evidence")
    asked = _Asked(name, said, plan, model, rounds, port, before=before)
    with ExitStack() as stack:
        if image is not None:
            if vllm or recipe or trees or only or engine or before:
                raise UsageError(
                    "an image says itself what is in it",
                    where=image,
                    todo="leave out --before and what names a source, patches or an engine",
                )
            order, ground = _in_image(session, image, asked, stack)
        else:
            request = request_from(vllm, recipe, trees, only)
            order, ground = _on_engine(session, request, engine, asked, stack)
        collecting = stack.enter_context(collected(root, order.name, numbered=name is None))
        order = replace(order, name=collecting.name)
        tell = _silent if as_json else _print
        record = prove(order, ground, collecting.room, session.progress, tell)
    if as_json:
        render.print_json(record)
    else:
        _print_end(record, root / order.name)
    return ExitCode.CLEAN if record["result"] == "passed" else ExitCode.FINDINGS


@dataclass(frozen=True)
class _Asked:
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
        session: Session,
        title: str,
        smoke: Smoke,
        machine: Machine,
        subject: list[dict[str, Any]],
    ) -> Order:
        return Order(
            name=self.name or dated(title),
            asked=self.said,
            subject=subject,
            smoke=smoke,
            models=self.models(smoke),
            cells=cells_of(smoke, rounds=self.rounds),
            machine=machine,
            patches=session.library.load_all(),
            before=self.before,
            port=self.port,
            digests=session.cache.answers("checkpoints"),
        )


def _on_engine(
    session: Session, request: jobs.Request, engine: str | None, asked: _Asked, stack: ExitStack
) -> tuple[Order, Ground]:
    """A run of patched trees over an engine's packages."""
    found = jobs.resolve(request, session.library)
    plan = asked.plan or request.recipe or found[0].recipe
    if plan is None:
        session.progress.note(_STANDARD)
    session.require_trust((), plan)
    smoke = smoke_plan_of(session, plan)
    machine = this_machine()
    engine = engine or ("cuda" if machine.gpus else "cpu")
    asked.said["engine"] = engine
    kind = engine if engine in KINDS else session.own_engine(engine).kind
    refuse_missing(smoke.needs, asked.models(smoke).values(), machine, kind)
    ground, plans, version = engine_ground(
        session, found, engine, stack, asked_for=bool(request.patches)
    )
    title = f"{found[0].recipe or version}-{kind}"
    return asked.order(session, title, smoke, machine, subject_of(plans)), ground


def _in_image(session: Session, name: str, asked: _Asked, stack: ExitStack) -> tuple[Order, Ground]:
    """A run in containers of an image, which says itself what is in it."""
    machine = this_machine()
    gpus = bool(machine.gpus)
    found, docker = look_at_image(name, stack, gpus=gpus)
    # The plan is a part of what evidence is for: named, so that it can be found again.
    asked.said["plan"] = asked.plan or found.lock.recipe
    if asked.said["plan"] is None:
        session.progress.note(_STANDARD)
    smoke = smoke_plan_of(session, asked.said["plan"])
    models = asked.models(smoke).values()
    refuse_missing(smoke.needs, models, machine, found.kind)
    seen = folders_to_show(session, asked.said["plan"], models, named=asked.model is not None)
    ground = image_ground(found, docker, seen, gpus=gpus)
    title = f"{found.lock.recipe or found.version}-{found.kind}-image"
    return asked.order(session, title, smoke, machine, subject_of_lock(found.lock)), ground


def smoke_plan_of(session: Session, recipe: str | None) -> Smoke:
    """Return the plan of a recipe; without a recipe, return the standard plan.

    Raises:
        UsageError: the recipe has no plan.
    """
    if recipe is None:
        return standard_plan()
    path = session.library.recipe(recipe)
    declared, _ = read_yaml(path, RecipeDeclaration)
    if declared.smoke is None:
        raise UsageError(
            "the recipe has no smoke plan", where=str(path), todo="add one under smoke, or --plan"
        )
    return declared.smoke


def _silent(_phase: str, _name: str, _checks: Sequence[Check]) -> None:
    pass


def _print(phase: str, name: str, checks: Sequence[Check]) -> None:
    found = verdict_of(checks)
    verdict = style(f"{found:<7}", fg=_COLOURS[found])
    failing = [c for c in checks if c.verdict == "fail" or (c.claimed and c.verdict != "pass")]
    line = "" if failing else _summary(checks)
    click.echo(f"{phase:<6}  {verdict}  {name:<28}  {line}".rstrip())
    for check in failing:
        reason = check.reason.replace("\n", "\n" + " " * 19)
        click.echo(f"{'':17}{check.name}: {reason or check.figure}")


def _summary(checks: Sequence[Check]) -> str:
    """What one wants to see of a cell that works."""
    shown = {check.name: check.figure for check in checks if check.figure}
    words = [shown[name] for name in ("runs", "acceptance") if name in shown] or [*shown.values()]
    return "; ".join(words) or "; ".join(check.reason for check in checks if check.reason)


def _print_end(record: dict[str, Any], folder: Path) -> None:
    after = [cell for cell in record["cells"] if cell["phase"] == "after"]
    passing = sum(cell["verdict"] == "pass" for cell in after)
    for cure in cures_of(record):
        click.echo(f"{cure.symptom}\n  {cure}")
    click.echo(f"{passing} of {render.counted(len(after), 'cell')} pass; evidence: {folder}")
