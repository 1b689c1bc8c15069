"""vpatch smoke: proof on a real engine, with and without speculative decoding."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vpatch import jobs
from vpatch.cli import render
from vpatch.cli.session import (
    Session,
    json_option,
    library_options,
    open_engine,
    request_from,
    source_options,
)
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.yamlfile import read_yaml
from vpatch.engine.environment import KINDS
from vpatch.errors import ExitCode, UsageError, VpatchError, together
from vpatch.memo import remembered_plan
from vpatch.smoke.cells import cells_of
from vpatch.smoke.checks import verdict_of
from vpatch.smoke.evidence import collected
from vpatch.smoke.machine import missing, this_machine
from vpatch.smoke.models import given, locate
from vpatch.smoke.prove import Order, prove
from vpatch.smoke.report import cures_of
from vpatch.source.urls import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.declare.smoke import Model, Smoke
    from vpatch.outcome import Plan
    from vpatch.smoke.checks import Check
    from vpatch.smoke.machine import Machine
    from vpatch.source.entry import CachedTree

EVIDENCE = Path("evidence")
_COLOURS = {"pass": "green", "fail": "red", "not run": "yellow"}


@click.command("smoke")
@source_options
@library_options
@click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="A vLLM that is made and cached, or one of yours  [default: cuda where there is a GPU]",
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
    default=EVIDENCE,
    show_default=True,
    help="The folder that evidence goes to.",
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

    Each cell of the plan is a start of a real engine: with its number of speculative tokens, and
    offline or as a server. Without a checkpoint of yours, tiny ones are made, whose tokens and
    acceptance are known in advance. Nothing of the engine's own files is touched.

    Ends with 1 where a check fails with the patches; what fails before is what they are for.
    """
    session = Session(patches, recipes, offline)
    asked = jobs.resolve(request_from(vllm, recipe, trees, only), session.library)
    smoke = smoke_plan_of(session, plan or asked[0].recipe)
    machine = this_machine()
    engine = engine or ("cuda" if machine.gpus else "cpu")
    models = dict.fromkeys(smoke.models, given(model)) if model else smoke.models
    kind = engine if engine in KINDS else session.own_engine(engine).kind
    _refuse_missing(smoke, models, machine, kind)
    said: dict[str, Any] = {
        "vllm": vllm and redact(vllm),
        "recipe": recipe,
        "tree": [redact(tree) for tree in trees],
        "patches": [str(folder) for folder in patches],
        "recipes": [str(folder) for folder in recipes],
        "patch": only,
        "engine": engine,
    }
    said |= {"plan": plan, "model": model, "rounds": rounds, "before": before}
    with ExitStack() as stack:
        trees_of = [stack.enter_context(session.tree(j.spec, j.expected_digest)) for j in asked]
        pairs = zip(asked, trees_of, strict=True)
        plans = [_planned(session, job, tree, asked_for=bool(only)) for job, tree in pairs]
        version = plans[0].pin.version
        if plans[0].pin.tree != "vllm" or version is None:
            raise UsageError("an engine is of a release of vLLM", todo="give --vllm VERSION")
        title = name or f"{asked[0].recipe or version}-{kind}-{_now()}"
        order = Order(
            name=title,
            asked=said,
            plans=plans,
            files=[{} if tree.pin.kind == "pypi" else tree.package_files for tree in trees_of],
            smoke=smoke,
            models=models,
            cells=cells_of(smoke, rounds=rounds),
            machine=machine,
            patches=session.library.load_all(),
            before=before,
            port=port,
        )
        found = stack.enter_context(open_engine(session, engine, version))
        room = stack.enter_context(collected(root, title))
        tell = _silent if as_json else _print
        record = prove(order, found, room, session.progress, tell)
    if as_json:
        render.print_json(record)
    else:
        _print_end(record, root / title)
    return ExitCode.CLEAN if record["result"] == "passed" else ExitCode.FINDINGS


def smoke_plan_of(session: Session, recipe: str | None) -> Smoke:
    """Return the plan of a recipe.

    Raises:
        UsageError: there is none.
    """
    if recipe is None:
        raise UsageError(
            "there is no recipe for this version, and so no smoke plan",
            todo="take that of another: --plan vllm-0.23",
        )
    path = session.library.recipe(recipe)
    declared, _ = read_yaml(path, RecipeDeclaration)
    if declared.smoke is None:
        raise UsageError(
            "the recipe has no smoke plan", where=str(path), todo="add one under smoke, or --plan"
        )
    return declared.smoke


def _refuse_missing(smoke: Smoke, models: dict[str, Model], machine: Machine, kind: str) -> None:
    """Say all that is not here, before anything is fetched or started."""
    errors = missing(smoke.needs, machine, kind)
    for one in models.values():
        try:
            locate(one)
        except VpatchError as error:
            errors.append(error)
    distinct = list({str(error): error for error in errors}.values())
    if distinct:
        raise together(distinct)


def _planned(session: Session, job: jobs.Job, tree: CachedTree, *, asked_for: bool) -> Plan:
    made = remembered_plan(session.plans, job.patches, tree, to_write=True)
    stopping = made.stopping(asked_for=asked_for or job.recipe is not None)
    if stopping:
        raise together(
            [
                VpatchError(
                    f"{d.patch.id} is {d.state}: {d.reason}",
                    where=made.pin.label,
                    todo=f"see vpatch status --why {d.patch.id}",
                )
                for d in stopping
            ]
        )
    return made


def _now() -> str:
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S")


def _silent(_phase: str, _name: str, _checks: Sequence[Check]) -> None:
    pass


def _print(phase: str, name: str, checks: Sequence[Check]) -> None:
    found = verdict_of(checks)
    verdict = click.style(f"{found:<7}", fg=_COLOURS[found])
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
