"""A benchmark's job on a node: one side and one model, measured as on one machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vpatch.commands.bench.run import BenchRequest, Opened, run
from vpatch.commands.bench.schema import MachineRecord, Side
from vpatch.declare.bench import Bench
from vpatch.errors import UnavailableError
from vpatch.harness.measured import Fault
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import locate
from vpatch.progress import Silent
from vpatch.source.cache import Cache, default_cache_folder

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.bench.measure import LoadRun
    from vpatch.harness.sandbox import Sandbox
    from vpatch.harness.target import ExecutionTarget

# The driver says what the side is. Here it has no more than a name.
_SIDE = Side.model_construct(
    set(),
    name="",
    what="",
    machine=MachineRecord.model_construct(
        system="", processor="", cores=0, memory=0.0, gpus=[], problem=None
    ),
    inherited={},
    digest=None,
)


def measured_on_node(
    job: dict[str, Any], target: ExecutionTarget, folder: Path, out: Path, log: Path
) -> dict[str, Any]:
    """Measure what a job says; logs and raw results go to `out`, and each point is told to `log`.

    Raises:
        UnavailableError: the checkpoint is not that of the other nodes.
        VpatchError: it broke off.
    """
    plan = _with_own_files(Bench.model_validate_json(json.dumps(job["plan"])), folder)
    hangs: list[str] = []

    def on_result(_side: str, point: LoadRun) -> None:
        result = point.result
        if isinstance(result, Fault) and result.hangs:
            hangs.append(str(result))
        said = f"{result}" if isinstance(result, Fault) else _speed(result.output_tokens_per_second)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{point.cell.name} {point.load.name} #{point.repeat + 1}: {said}\n")

    def client(workdir: Path) -> Sandbox:
        return target.sandbox("after", workdir.parent, workdir.name)

    digests = Cache(default_cache_folder()).answers("checkpoints")
    _refuse_another(job["model"], job["digest"], plan, digests)
    request = BenchRequest(
        name="node",
        asked={},
        plan=plan,
        datasets={},
        sides=[Opened(target, _SIDE)],
        client=client,
        vllm=target.version,
        digests=digests,
    )
    (out / "logs").mkdir()
    record, failure = run(request, out, Silent(), on_result)
    if failure is not None:
        raise failure
    return {
        "points": [point.model_dump(exclude_unset=True, warnings=False) for point in record.points],
        "models": {name: model.model_dump() for name, model in record.models.items()},
        "hangs": hangs[0] if hangs else None,
        "engine": {"kind": target.kind, "version": target.version},
    }


def _refuse_another(model: str, wanted: str | None, plan: Bench, digests: Path) -> None:
    """Compare the checkpoint with that of the other nodes, before a long measurement."""
    place = locate(plan.models[model])
    if place is None or wanted is None:
        return
    digest = digest_of_checkpoint(place, digests)
    if digest != wanted:
        raise UnavailableError(
            f"the checkpoint {model} is {digest} here, not {wanted}",
            where=str(place),
            hint="give every node the same files",
            code="cluster.model-differs",
        )


def _with_own_files(plan: Bench, folder: Path) -> Bench:
    """The plan with the datasets that came with the job."""
    shapes = []
    for number, shape in enumerate(plan.shapes):
        sent = folder / "sent" / "datasets" / str(number)
        path = {} if shape.path is None else {"path": str(next(sent.iterdir()))}
        shapes.append(shape.model_copy(update=path))
    return plan.model_copy(update={"shapes": tuple(shapes)})


def _speed(tokens: float) -> str:
    return f"{tokens:.1f} tok/s"
