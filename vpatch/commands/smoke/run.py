"""A phase of a smoke run: cells in one sandbox, in order, and what is to be said of each."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.smoke.cells import visits
from vpatch.commands.smoke.checks import Baseline, Check, judge, speed_of, verdict_of
from vpatch.commands.smoke.offline import run_offline
from vpatch.commands.smoke.server import run_server
from vpatch.engine.overlay import OverlayError
from vpatch.engine.process import LogError
from vpatch.harness.measured import Fault, Measured, StartHangs
from vpatch.runs.matrix import slug_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vpatch.commands.smoke.cells import Cell
    from vpatch.commands.smoke.checks import Verdict
    from vpatch.harness.models import PreparedModel
    from vpatch.harness.sandbox import Sandbox
    from vpatch.harness.target import Phase
    from vpatch.progress import Progress

_SEVERAL = 2
# Why a cell did not run, or did not run to its end.
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class NodeRun:
    """Where a cell ran, on a cluster. `lost` has the node and the reason of each earlier attempt.

    `hardware` says what speeds depend on, and `digests` are of the files that were laid over there.
    """

    node: str
    hardware: str
    digests: Mapping[str, str]
    lost: tuple[tuple[str | None, str], ...] = ()


@dataclass(frozen=True)
class CellRun:
    """One run of a cell, or why there was none; `there` is where, if not on this machine."""

    cell: Cell
    log: Path
    measured: Measured | None
    skipped: str = ""
    there: NodeRun | None = None


@dataclass(frozen=True)
class CellResult:
    """The verdict on a cell after all its rounds."""

    phase: Phase
    cell: Cell
    checks: tuple[Check, ...]
    visits: tuple[CellRun, ...]

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.checks)


@dataclass(frozen=True)
class PhaseContext:
    """Where a phase runs, and where its logs go; `port` is of its servers, where it is given."""

    phase: Phase
    sandbox: Sandbox
    checkpoints: Mapping[str, PreparedModel]
    logs: Path
    workdir: Path
    port: int | None = None


def run_phase(
    place: PhaseContext,
    cells: Sequence[Cell],
    progress: Progress,
    on_result: Callable[[CellResult], None],
    *,
    interrupted: bool = False,
) -> list[CellResult]:
    """Run all cells. `on_result` gets each result as soon as nothing can change it any more.

    A start that hangs is not tried again in another mode or round. On the pristine tree, more
    speculative tokens are not tried where fewer did not even start. After an interrupt, nothing
    more runs; the results say so.
    """
    planned = list(visits(cells))
    runs: list[CellRun] = []
    acceptance = {name: one.acceptance for name, one in place.checkpoints.items()}
    verdicts = CellVerdicts(place.phase, cells, place.sandbox.digests, acceptance, on_result)
    for number, (_, cell) in enumerate(planned, 1):
        log = place.logs / log_name(place.phase, number, cell)
        reason = INTERRUPTED if interrupted else _why_hangs(runs, cell)
        if not reason and place.phase == "before":
            reason = _why_useless(runs, cell)
        if reason:
            runs.append(CellRun(cell, log, None, reason))
        else:
            task = progress.start(f"{place.phase}, {number} of {len(planned)}: {cell.name}")
            folder = place.checkpoints[cell.model].folder
            try:
                ran = run_cell(cell, folder, place.sandbox, place.workdir, log, port=place.port)
            except KeyboardInterrupt:
                # Hours of other cells may be behind it.
                interrupted = True
                runs.append(CellRun(cell, log, None, INTERRUPTED))
            else:
                runs.append(CellRun(cell, log, ran))
                task.done()
        verdicts.look(runs, [following for _, following in planned[number:]])
    return verdicts.all()


def was_interrupted(results: Sequence[CellResult]) -> bool:
    """Whether somebody interrupted the run of these cells."""
    return any(visit.skipped == INTERRUPTED for result in results for visit in result.visits)


def log_name(phase: Phase, number: int, cell: Cell) -> str:
    return f"{phase}-{number:02}-{slug_of(cell.name)}.log"


@dataclass
class CellVerdicts:
    """The verdicts on the cells of a phase: `on_result` gets each as soon as nothing can change it.

    `digests` are of the files that are laid over, and `acceptance` is that of each model.
    """

    phase: Phase
    cells: Sequence[Cell]
    digests: Mapping[str, str]
    acceptance: Mapping[str, str | None]
    on_result: Callable[[CellResult], None]
    _results: dict[int, CellResult] = field(default_factory=dict, init=False)

    def look(self, runs: Sequence[CellRun], later: Sequence[Cell]) -> None:
        """Judge what can be: the `runs` are in their order, `later` are the cells to come."""
        seen = [visit.cell for visit in runs]
        for index, visited in enumerate(self.cells):
            if index not in self._results and visited in seen and _is_settled(visited, later):
                self._results[index] = self._judge(visited, runs)
                self.on_result(self._results[index])

    def all(self) -> list[CellResult]:
        return [self._results[index] for index in range(len(self.cells))]

    def _judge(self, cell: Cell, visited: Sequence[CellRun]) -> CellResult:
        mine = tuple(visit for visit in visited if visit.cell == cell)
        runs = [visit for visit in mine if visit.measured is not None]
        if not runs:
            skipped = Check("runs", "not run", reason=mine[0].skipped)
            return CellResult(self.phase, cell, (skipped,), mine)
        base = _matching_runs(cell, visited)
        against = Baseline(
            digests=self.digests,
            acceptance=self.acceptance[cell.model],
            base=_base(cell, visited),
            speeds=_speeds(runs),
            base_speeds=_speeds(base) if _same_hardware([*runs, *base]) else [],
        )
        checks: dict[str, Check] = {}
        for visit, measured in ((v, v.measured) for v in runs if v.measured is not None):
            there = visit.there.digests if visit.there else self.digests
            for check in judge(cell, measured, replace(against, digests=there)):
                # What fails in any round fails.
                if check.verdict == "fail" or check.name not in checks:
                    checks[check.name] = check
        if any(visit.skipped == INTERRUPTED for visit in mine):
            rounds = f"{len(runs)} of {len(mine)}"
            checks["rounds"] = Check("rounds", "not run", rounds, INTERRUPTED, claimed=True)
        return CellResult(self.phase, cell, tuple(checks.values()), mine)


def _is_settled(cell: Cell, later: Sequence[Cell]) -> bool:
    """Whether neither the cell nor what it is compared with is run again."""
    return not any(c == cell or (c.k == 0 and _question(c, cell)) for c in later)


def _why_useless(visited: Sequence[CellRun], cell: Cell) -> str:
    for visit in visited:
        other, seen = visit.cell, visit.measured
        alike = (other.row, other.mode) == (cell.row, cell.mode) and 0 < other.k < cell.k
        if alike and seen and seen.fault and seen.fault.kind == "does not start":
            return f"k={other.k} did not even start"
    return ""


def _why_hangs(visited: Sequence[CellRun], cell: Cell) -> str:
    """Return why a cell's start would hang: the same start did, or that without speculation."""
    for visit in visited:
        other, seen = visit.cell, visit.measured
        if seen is None or not isinstance(seen.fault, StartHangs):
            continue
        if _start(other) == _start(cell) and other.k in {0, cell.k}:
            return f"the start of k={other.k} {other.mode} hangs: {seen.fault.what}"
    return ""


def _start(cell: Cell) -> tuple[object, ...]:
    """Return what decides whether a start hangs, whatever the mode."""
    return cell.model, cell.method, cell.tensor_parallel, cell.flags


def run_cell(
    cell: Cell, model: Path, sandbox: Sandbox, workdir: Path, log: Path, *, port: int | None = None
) -> Measured:
    """Run a cell in a sandbox, in a folder of its own below `workdir`."""
    with tempfile.TemporaryDirectory(dir=workdir) as name:
        try:
            if cell.mode == "offline":
                measured = run_offline(cell, model, sandbox, Path(name), log)
            else:
                measured = run_server(cell, model, sandbox, Path(name), log, port=port)
        except LogError as error:
            measured = Measured(fault=Fault("lost its log", error.what))
    try:
        sandbox.verify()
    except OverlayError as error:
        return replace(measured, fault=Fault("tampered with", f"{error.where}: {error.what}"))
    return measured


def _base(cell: Cell, visited: Sequence[CellRun]) -> Measured | None:
    """What k = 0 says to the same: of the same row and mode, or else of any that was asked it."""
    rows = [v for v in visited if v.cell.k == 0 and v.measured and _question(v.cell, cell)]
    rows.sort(key=lambda v: (v.cell.row != cell.row, v.cell.mode != cell.mode))
    return rows[0].measured if rows else None


def _question(one: Cell, other: Cell) -> bool:
    def asked(cell: Cell) -> tuple[object, ...]:
        return cell.model, cell.prompts, cell.max_tokens, cell.sampling, cell.flags

    return asked(one) == asked(other)


def _matching_runs(cell: Cell, visited: Sequence[CellRun]) -> list[CellRun]:
    """The runs with k = 0 that differ in nothing else: speeds are compared with no others."""
    return [
        v
        for v in visited
        if (v.cell.row, v.cell.k, v.cell.mode) == (cell.row, 0, cell.mode) and v.measured
    ]


def _same_hardware(runs: Sequence[CellRun]) -> bool:
    return len({run.there.hardware for run in runs if run.there}) < _SEVERAL


def _speeds(runs: Sequence[CellRun]) -> list[float]:
    speeds = [speed_of(run.measured) for run in runs if run.measured is not None]
    return [speed for speed in speeds if speed is not None]
