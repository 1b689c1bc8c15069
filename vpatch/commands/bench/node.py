"""A benchmark's job on a node: one side and one model, measured as on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from vpatch.cluster.job import LOG
from vpatch.commands.bench.load_result import LoadResult
from vpatch.commands.bench.run import BenchRequest, Opened, run
from vpatch.commands.bench.schema import MachineRecord, ModelRecord, Side
from vpatch.declare.bench import Bench
from vpatch.declare.smoke import Model
from vpatch.harness.machine import this_machine
from vpatch.harness.measured import Fault, StartHangs
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import locate
from vpatch.progress import Silent
from vpatch.runs.node_job import EngineJob, RunAnswer, checkpoint_digests, facts_of, why_another

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.bench.measure import LoadRun


class PointAnswer(BaseModel):
    """What came of a point; `log` and `raw` are files that come back, or are not there."""

    log: str | None
    raw: str | None
    measured: LoadResult | None
    fault: Fault | StartHangs | None

    @property
    def result(self) -> LoadResult | Fault:
        """Return what was measured, or why nothing was. Raises ValueError without both."""
        if (result := self.measured or self.fault) is None:
            raise ValueError("a point has neither figures nor a fault")
        return result


class BenchAnswer(RunAnswer):
    """The points of a job, and the model that was measured."""

    points: list[PointAnswer]
    models: dict[str, ModelRecord]


class BenchJob(EngineJob):
    """Measure all of a plan that is of one model, on one side."""

    do: Literal["bench"] = "bench"
    plan: Bench
    checkpoint: Model

    def run(self, folder: Path) -> BenchAnswer:
        out, datasets = folder / "out", folder / "sent" / "datasets"
        results: list[LoadResult | Fault] = []

        def on_result(_side: str, point: LoadRun) -> None:
            result = point.result
            results.append(result)
            if isinstance(result, Fault):
                line = str(result)
            else:
                line = f"{result.output_tokens_per_second:.1f} tok/s"
            with (out / LOG).open("a", encoding="utf-8") as file:
                file.write(f"{point.cell.name} {point.load.name} #{point.repeat + 1}: {line}\n")

        with self.target(folder, [datasets] if datasets.is_dir() else []) as target:
            # Before a long measurement.
            place, digests = locate(self.checkpoint), checkpoint_digests()
            if place is not None and self.digest is not None:
                self.refuse_another(digest_of_checkpoint(place, digests), str(place))
            # The driver says what the side is.
            machine = MachineRecord.model_validate(this_machine(), from_attributes=True)
            side = Side(name="", what="", machine=machine, inherited={}, digest=None)
            plan = _with_own_files(self.plan, datasets)
            request = BenchRequest("node", {}, plan, {}, [Opened(target, side)], digests=digests)
            (out / "logs").mkdir()
            record, failure = run(request, out, Silent(), on_result)
            if failure is not None:
                raise failure
        return BenchAnswer(
            **facts_of(target),
            points=[
                PointAnswer(
                    log=point.log,
                    raw=point.raw,
                    measured=None if isinstance(result, Fault) else result,
                    fault=result if isinstance(result, Fault) else None,
                )
                for point, result in zip(record.points, results, strict=True)
            ],
            models=record.models,
            hangs=why_another(one for one in results if isinstance(one, Fault)),
        )


def _with_own_files(plan: Bench, datasets: Path) -> Bench:
    """The plan with the datasets that came with the job."""
    shapes = []
    for number, shape in enumerate(plan.shapes):
        path = {} if shape.path is None else {"path": str(next((datasets / str(number)).iterdir()))}
        shapes.append(shape.model_copy(update=path))
    return plan.model_copy(update={"shapes": tuple(shapes)})
