"""Jobs of a smoke run on a node: a run of a cell, or the imports of a phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from vpatch.cluster.job import LOG
from vpatch.commands.smoke.cells import Cell
from vpatch.commands.smoke.checks import Verdict
from vpatch.commands.smoke.imports import collect_environment, run_imports
from vpatch.commands.smoke.run import run_cell
from vpatch.declare.smoke import Imports, Model
from vpatch.harness.measured import Measured
from vpatch.harness.models import prepare
from vpatch.harness.target import Phase
from vpatch.runs.node_job import EngineJob, RunAnswer, checkpoint_digests, facts_of, why_another

if TYPE_CHECKING:
    from pathlib import Path


class CheckpointFacts(BaseModel):
    """What a node says of a checkpoint; see `PreparedModel`."""

    described: str
    digest: str
    acceptance: str | None


class CellAnswer(RunAnswer):
    """What came of a cell; `digests` are of the files that were laid over."""

    measured: Measured
    digests: dict[str, str]
    model: CheckpointFacts


class CellJob(EngineJob):
    do: Literal["cell"] = "cell"
    phase: Phase
    cell: Cell
    checkpoint: Model

    def run(self, folder: Path) -> CellAnswer:
        work = folder / "tmp"
        with self.target(folder) as target:
            sandbox = target.sandbox(self.phase, work, "site")
            (work / "models").mkdir()
            model = prepare(
                self.model, self.checkpoint, sandbox, work / "models", checkpoint_digests()
            )
            self.refuse_another(model.digest, model.described)
            measured = run_cell(self.cell, model.folder, sandbox, work, folder / "out" / LOG)
        return CellAnswer(
            **facts_of(target),
            measured=measured,
            hangs=why_another([measured.fault]),
            digests=dict(sandbox.digests),
            model=CheckpointFacts.model_validate(model, from_attributes=True),
        )


class ImportsAnswer(RunAnswer):
    """The name, the verdict, the figure and the reason of each check of the imports."""

    checks: list[tuple[str, Verdict, str, str]]
    environment: str | None


class ImportsJob(EngineJob):
    do: Literal["imports"] = "imports"
    phase: Phase
    imports: Imports
    environment: dict[str, str]

    def run(self, folder: Path) -> ImportsAnswer:
        work, report = folder / "tmp", folder / "environment"
        with self.target(folder) as target:
            sandbox = target.sandbox(self.phase, work, "site")
            (work / "imports").mkdir()
            log = folder / "out" / LOG
            checks = run_imports(self.imports, sandbox, self.environment, work / "imports", log)
            if self.phase == "after":
                collect_environment(sandbox, work, report)
        return ImportsAnswer(
            **facts_of(target),
            environment=report.read_text("utf-8", "replace") if report.exists() else None,
            checks=[(check.name, check.verdict, check.figure, check.reason) for check in checks],
        )
