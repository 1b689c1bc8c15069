"""Tree -> evidence: the phases of a smoke run in an engine, and what they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.smoke.checks import Check
from vpatch.commands.smoke.imports import collect_environment, run_imports
from vpatch.commands.smoke.record import SmokeRun, machine_record, record_of
from vpatch.commands.smoke.run import PhaseContext, run_phase, was_interrupted
from vpatch.errors import UnavailableError
from vpatch.evidence.records import RunEngine
from vpatch.evidence.store import ENVIRONMENT, LOGS, write_evidence
from vpatch.harness.models import prepare
from vpatch.harness.target import new_folder
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from vpatch.commands.smoke.point import SmokeRequest
    from vpatch.commands.smoke.run import CellResult
    from vpatch.evidence.records import SmokeRecord
    from vpatch.harness.target import ExecutionTarget, Phase
    from vpatch.progress import Progress

# Is told of the phase, what was looked at, and the checks of it.
OnResult = Callable[[str, str, Sequence[Check]], None]


def run_smoke(
    request: SmokeRequest,
    target: ExecutionTarget,
    workdir: Path,
    progress: Progress,
    on_result: OnResult,
) -> SmokeRecord:
    """Run a request on its target, and write evidence to `workdir`.

    `on_result` gets what was found, cell by cell.

    After an interrupt, what ran is kept, and the record says that the rest did not run.

    Raises:
        KeyboardInterrupt: no cell had run when it was interrupted.
        OverlayError: the engine's packages are not those of the trees.
        UnavailableError: the machine is in the way, such as a full disk.
    """
    try:
        with scratch_folder() as name:
            ran = _run(request, target, workdir, Path(name), progress, on_result)
        record = record_of(ran)
        write_evidence(workdir, record)
    except OSError as error:
        raise UnavailableError(
            f"the run could not be made: {error}",
            where=str(workdir),
            hint="free space there and in the folder for temporary files (or name it with TMPDIR)",
            code="smoke.could-not-run",
        ) from error
    return record


def _run(
    request: SmokeRequest,
    target: ExecutionTarget,
    workdir: Path,
    work: Path,
    progress: Progress,
    on_result: OnResult,
) -> SmokeRun:
    timestamp = datetime.now(UTC).isoformat(timespec="seconds")
    sites = {phase: target.sandbox(phase, work) for phase in request.phases}
    task = progress.start(f"Preparing {', '.join(request.models)}")
    folder = new_folder(work, "models")
    used = {cell.model for cell in request.cells}
    checkpoints = {
        name: prepare(name, model, sites["after"], folder, request.digests)
        for name, model in request.models.items()
        if name in used
    }
    task.done()

    def report(result: CellResult) -> None:
        on_result(result.phase, result.cell.name, result.checks)

    imports: dict[Phase, Sequence[Check]] = {}
    results: list[CellResult] = []
    for phase in request.phases:
        stopped = was_interrupted(results)
        place = PhaseContext(phase, sites[phase], checkpoints, workdir / LOGS, work, request.port)
        if not stopped:
            imports[phase] = run_imports(
                request.smoke.imports,
                sites[phase],
                request.cells[0].environment,
                new_folder(work, f"imports-{phase}"),
                workdir / LOGS / f"{phase}-imports.log",
            )
            for check in imports[phase]:
                on_result(phase, check.name, [check])
        results += run_phase(place, request.cells, progress, report, interrupted=stopped)
    if not any(visit.measured for result in results for visit in result.visits):
        raise KeyboardInterrupt
    # Who interrupts does not wait for more.
    if not was_interrupted(results):
        task = progress.start("Collecting the environment")
        ended = collect_environment(sites["after"], work, workdir / ENVIRONMENT)
        task.done()
        if ended.code != 0:
            progress.note(f"vllm.collect_env ended with {ended.code}; see {ENVIRONMENT}")
    return SmokeRun(
        request=request,
        timestamp=timestamp,
        engine=RunEngine(kind=target.kind, vllm=target.version),
        image=target.image,
        machine=machine_record(request.machine),
        checkpoints=checkpoints,
        imports=imports,
        results=results,
    )
