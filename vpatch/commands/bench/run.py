"""A plan and its sides -> a record: checkpoints, all servers in turn, and what they leave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.commands.bench.cells import BenchCell, cells_of, schedule, side_names
from vpatch.commands.bench.load import LoadTarget, Sender
from vpatch.commands.bench.measure import BenchContext, LoadRun, measure
from vpatch.commands.bench.record import RAW, RECORD, point_of, write_record
from vpatch.commands.bench.report.markdown import csv_of, report_of
from vpatch.commands.bench.report.page import page_of
from vpatch.commands.bench.schema import (
    SCHEMA_VERSION,
    BenchRecord,
    ClientRecord,
    ModelRecord,
    PlanRecord,
    Side,
)
from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.evidence.store import LOGS
from vpatch.harness.models import PreparedModel, prepare
from vpatch.harness.sandbox import lay_over, run_in
from vpatch.harness.target import new_folder
from vpatch.util.home import expanded
from vpatch.util.os_errors import cannot_write
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.commands.bench.servers import RunningServer
    from vpatch.declare.bench import Bench
    from vpatch.engine.environment import Engine
    from vpatch.harness.sandbox import Sandbox
    from vpatch.harness.target import ExecutionTarget
    from vpatch.progress import Progress

REPORT = "report.md"
PAGE = "report.html"
TABLE = "results.csv"
# What vLLM reads prompts from files with, and does not require.
_READER = "pandas"
_READER_SECONDS = 300.0
OnLoadRun = Callable[[str, LoadRun], None]
# The part of a plan that servers get when they start.
_OF_SERVERS = ("method", "tensor-parallel", "share-server", "flags", "environment", "needs")


@dataclass(frozen=True)
class Opened:
    """A side whose servers are started: on its target, and as the record has it, but its name."""

    target: ExecutionTarget
    described: Side

    @property
    def vllm(self) -> str:
        """The version of the vLLM that can send loads."""
        return self.target.version

    def client(self, work: Path) -> Sandbox:
        """Make the sandbox that sends loads, in a folder below `work`."""
        return self.target.sandbox("after", work, "client")


@dataclass(frozen=True)
class Answering:
    """A side whose servers were there before; prompts are made with a tokenizer, in a folder.

    `engine` is there for its `vllm bench serve` alone.
    """

    servers: Sequence[RunningServer]
    described: Side
    tokenizer: Path
    engine: Engine

    @property
    def vllm(self) -> str:
        """The version of the vLLM that can send loads."""
        return self.engine.version

    def client(self, work: Path) -> Sandbox:
        """Make the sandbox that sends loads, in a folder below `work`."""
        return lay_over(self.engine, [{}], new_folder(work, "client"))


@dataclass(frozen=True)
class BenchRequest:
    """A benchmark to make. The first side's vLLM sends the loads of all.

    `datasets` has the digests of the files that prompts come from, by the names of their shapes;
    `asked` is what the command line said; `port` is for the servers that are started. `digests` is
    the cache's folder that remembers digests of large files.
    """

    name: str
    asked: Mapping[str, str | int | list[str]]
    plan: Bench
    datasets: Mapping[str, str]
    sides: Sequence[Opened | Answering]
    port: int | None = None
    digests: Path | None = None


def run(
    request: BenchRequest, workdir: Path, progress: Progress, on_result: OnLoadRun
) -> tuple[BenchRecord, KeyboardInterrupt | VpatchError | None]:
    """Make a benchmark, and write its record to `workdir`; `on_result` gets each point.

    It may take hours: what was measured when it breaks off is kept. Returns the record, and why it
    broke off, if it did.

    Raises:
        UnavailableError: the machine is in the way, such as a full disk.
        VpatchError: it could not be made, or nothing was measured when it broke off.
        KeyboardInterrupt: nothing was measured when it was interrupted.
    """
    begun = datetime.now(UTC)
    points: list[LoadRun] = []
    failure: KeyboardInterrupt | VpatchError | None = None
    try:
        (workdir / RAW).mkdir()
        with scratch_folder() as work:
            # A server that runs may have had the prompts of a benchmark in the same second.
            salt = begun.isoformat() if isinstance(request.sides[0], Answering) else ""
            place, cells, checkpoints = _prepare(request, workdir, Path(work), progress)
            visits = list(schedule(cells, request.plan, salt))
            try:
                for point in measure(place, visits, lambda what: progress.start(what).done):
                    points.append(point)
                    on_result(place.names[point.side], point)
            except OSError as error:
                failure = _no_room(error, workdir)
            except (KeyboardInterrupt, VpatchError) as error:
                failure = error
        if failure is not None and not points:
            raise failure
        sides = [
            side.described.model_copy(update={"name": name})
            for name, side in zip(side_names(len(request.sides)), request.sides, strict=True)
        ]
        models = {
            name: ModelRecord(model=one.described, digest=one.digest)
            for name, one in checkpoints.items()
        }
        record = BenchRecord.model_construct(
            schema_version=SCHEMA_VERSION,
            vpatch=__version__,
            name=request.name,
            made=begun.isoformat(timespec="seconds"),
            asked=dict(request.asked),
            client=ClientRecord(vllm=request.sides[0].vllm),
            models=models or _served_models(request),
            datasets=dict(request.datasets),
            plan=_known_plan(request),
            planned=sum(len(visit.loads) for visit in visits),
            sides=sides,
            points=[point_of(point) for point in points],
        )
        write_record(workdir, record)
    except OSError as error:
        raise _no_room(error, workdir) from error
    return record, failure


def _no_room(error: OSError, workdir: Path) -> VpatchError:
    return UnavailableError(
        f"the benchmark could not be made: {error}",
        where=str(workdir),
        hint="free space there and in the folder for temporary files (or name it with TMPDIR)",
        code="bench.could-not-run",
    )


def _known_plan(request: BenchRequest) -> PlanRecord:
    """The plan, without what servers that were there before were started with."""
    plan = request.plan.model_dump(mode="json", exclude_none=True)
    unknown = _OF_SERVERS if isinstance(request.sides[0], Answering) else ()
    return PlanRecord.model_validate(
        {name: value for name, value in plan.items() if name not in unknown}
    )


def _served_models(request: BenchRequest) -> dict[str, ModelRecord]:
    """What running servers say that they serve; which bytes that is, they do not."""
    (name,) = request.plan.models
    roots = {
        server.root
        for side in request.sides
        if isinstance(side, Answering)
        for server in side.servers
    }
    return {name: ModelRecord(model=", ".join(sorted(map(str, roots))), digest=None)}


def write_shown(folder: Path, record: BenchRecord) -> None:
    """Write what is made of a record, beside it.

    Raises:
        UsageError, UnavailableError: it cannot be written; the record is there anyway.
    """
    try:
        (folder / REPORT).write_text(report_of(record), encoding="utf-8")
        (folder / TABLE).write_text(csv_of(record), encoding="utf-8")
    except OSError as error:
        raise cannot_write(
            "the report",
            error,
            where=str(folder),
            hint=f"free space there; {RECORD} is written already",
        ) from error
    write_page(folder / PAGE, record)


def write_page(file: Path, record: BenchRecord) -> None:
    """Write the page of a record.

    Raises:
        UsageError, UnavailableError: it cannot be written; no half of it is left.
    """
    text = page_of(record)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        if file.is_file():
            file.unlink()
        raise cannot_write(
            "the page",
            error,
            where=str(file),
            hint="free space there, or name another place with vpatch bench compare --output",
        ) from error


def datasets_of(plan: Bench) -> dict[str, str]:
    """Return the digests of the files that prompts come from, by the names of their shapes.

    Raises:
        UsageError: one cannot be read.
    """
    digests = {}
    for shape in plan.shapes:
        if shape.path is None:
            continue
        try:
            with expanded(shape.path).open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(
                f"the dataset cannot be read: {error.strerror}",
                where=shape.path,
                hint="correct the path in the plan; it is relative to the current folder",
                code="bench.no-dataset",
            ) from error
        digests[shape.name] = f"sha256:{digest}"
    return digests


def _prepare(
    request: BenchRequest, workdir: Path, work: Path, progress: Progress
) -> tuple[BenchContext, list[list[BenchCell]], dict[str, PreparedModel]]:
    """Return where it all runs, the cells of each side, and the checkpoints."""
    plan = request.plan
    client = request.sides[0].client(work)
    if any(shape.path for shape in plan.shapes):
        _refuse_without_reader(client, work)
    checkpoints = {}
    if isinstance(request.sides[0], Opened):
        task = progress.start(f"Preparing {', '.join(plan.models)}")
        folder = new_folder(work, "models")
        checkpoints = {
            name: prepare(name, model, client, folder, request.digests)
            for name, model in plan.models.items()
        }
        task.done()
    names = side_names(len(request.sides))
    opened, cells = [], []
    for name, side in zip(names, request.sides, strict=True):
        opened_side, of_side = _side(side, plan, work, name or "only")
        opened.append(opened_side)
        cells.append(of_side)
    sender = Sender(client, plan.sampling, plan.environment, plan.timeouts.cell, plan.flags)
    place = BenchContext(
        opened,
        checkpoints,
        names,
        sender,
        workdir / LOGS,
        workdir / RAW,
        work,
        request.port,
        warm_up=plan.warm_up,
    )
    return place, cells, checkpoints


def _refuse_without_reader(client: Sandbox, work: Path) -> None:
    """Look for it first: servers start slowly."""
    log = work / "reader.log"
    command: list[str | Path] = [client.python, "-c", f"import {_READER}"]
    ended = run_in(client, command, workdir=work, log=log, timeout=_READER_SECONDS)
    if ended.code != 0:
        raise UsageError(
            f"vllm bench serve cannot read prompts from a file: {_READER} is not installed",
            where=str(client.python),
            hint=f"install it: {client.python} -m pip install {_READER}",
            code="bench.missing-package",
        )


def _side(
    side: Opened | Answering, plan: Bench, work: Path, name: str
) -> tuple[Sandbox | Mapping[BenchCell, LoadTarget], list[BenchCell]]:
    if isinstance(side, Opened):
        return side.target.sandbox("after", work, name), cells_of(plan)
    (model,) = plan.models
    targets = {
        BenchCell(model, server.k, plan.method, plan.tensor_parallel, plan.timeouts): LoadTarget(
            server.client, server.served, str(side.tokenizer)
        )
        for server in sorted(side.servers, key=lambda server: server.k)
    }
    return targets, list(targets)
