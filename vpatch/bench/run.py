"""A plan and its sides -> a record: checkpoints, all servers in turn, and what they leave."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.bench.cells import Cell, cells_of, visits_of
from vpatch.bench.load import Sender, Target
from vpatch.bench.measure import Found, Place, Point, Started, measure
from vpatch.bench.page import page_of
from vpatch.bench.record import RAW, RECORD, Ran, record_of
from vpatch.bench.report import csv_of, report_of
from vpatch.errors import UsageError, VpatchError
from vpatch.smoke.evidence import LOGS
from vpatch.smoke.models import Checkpoint, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.bench.running import Running
    from vpatch.declare.bench import Bench
    from vpatch.progress import Progress
    from vpatch.smoke.prove import Ground
    from vpatch.smoke.site import Site

REPORT = "report.md"
PAGE = "report.html"
TABLE = "results.csv"
Tell = Callable[[str, Point], None]


@dataclass(frozen=True)
class Opened:
    """A side whose servers are started: on its ground, and as the record has it."""

    ground: Ground
    described: Mapping[str, Any]


@dataclass(frozen=True)
class Answering:
    """A side whose servers were there before."""

    servers: Sequence[Running]
    described: Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """A benchmark to make. `client` makes the site that sends the loads, below a folder.

    `vllm` is the version that it has; `asked` is what the command line said; `port` is for the
    servers that are started.
    """

    name: str
    asked: Mapping[str, Any]
    plan: Bench
    sides: Sequence[Opened | Answering]
    client: Callable[[Path], Site]
    vllm: str
    port: int | None = None


def run(order: Order, room: Path, progress: Progress, tell: Tell) -> dict[str, Any]:
    """Make a benchmark, and write to `room` what came of it; `tell` gets each point.

    It may take hours: what was measured when it is interrupted is kept, with what was `planned`.

    Raises:
        VpatchError: it could not be made.
        KeyboardInterrupt: nothing was measured by then.
    """
    made = datetime.now(UTC).isoformat(timespec="seconds")
    datasets = datasets_of(order.plan)
    (room / RAW).mkdir()
    points: list[Point] = []

    def keep(point: Point) -> None:
        points.append(point)
        tell(_names(order)[point.side], point)

    try:
        with tempfile.TemporaryDirectory(prefix="vpatch-") as work:
            # A server that runs may have had the prompts of an earlier benchmark.
            salt = made if isinstance(order.sides[0], Answering) else ""
            place, cells, checkpoints = _prepared(order, room, Path(work), progress)
            visits = list(visits_of(cells, order.plan, salt))
            try:
                measure(place, visits, lambda what: progress.start(what).done, keep)
            except KeyboardInterrupt:
                if not points:
                    raise
        sides = [
            {"name": name, **side.described}
            for name, side in zip(_names(order), order.sides, strict=True)
        ]
        record = record_of(
            Ran(
                name=order.name,
                made=made,
                asked=order.asked,
                plan=order.plan,
                client=order.vllm,
                checkpoints=checkpoints,
                datasets=datasets,
                sides=sides,
                points=points,
                planned=sum(len(visit.loads) for visit in visits),
            )
        )
        for name, text in (
            (RECORD, json.dumps(record, indent=1) + "\n"),
            (REPORT, report_of(record)),
            (TABLE, csv_of(record)),
        ):
            (room / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise VpatchError(
            f"the benchmark could not be made: {error}",
            where=str(room),
            todo="free space there and in the folder for temporary files (or name it with TMPDIR)",
        ) from error
    return record


def write_page(file: Path, record: Mapping[str, Any]) -> None:
    """Write the page of a record.

    Raises:
        VpatchError: it cannot be written; no half of it is left.
    """
    text = page_of(record)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        if file.is_file():
            file.unlink()
        raise VpatchError(
            f"the page cannot be written: {error.strerror}",
            where=str(file),
            todo="free space there, or name another place with vpatch bench compare --html",
        ) from error


def _names(order: Order) -> list[str]:
    return ["A", "B"] if len(order.sides) > 1 else [""]


def datasets_of(plan: Bench) -> dict[str, str]:
    """Return the digests of the files that prompts come from, by the names of their shapes.

    Raises:
        UsageError: one is not there.
    """
    found = {}
    for shape in plan.shapes:
        if shape.path is None:
            continue
        try:
            with Path(shape.path).open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(
                f"the dataset cannot be read: {error.strerror}",
                where=shape.path,
                todo="correct the path in the plan; it is relative to the current folder",
            ) from error
        found[shape.name] = f"sha256:{digest}"
    return found


def _prepared(
    order: Order, room: Path, work: Path, progress: Progress
) -> tuple[Place, list[list[Cell]], dict[str, Checkpoint]]:
    """Return where it all runs, the cells of each side, and the checkpoints."""
    plan = order.plan
    models = work / "models"
    models.mkdir()
    client = order.client(work / "client")
    task = progress.start(f"Preparing {', '.join(plan.models)}")
    checkpoints = {
        name: prepare(name, model, client, models) for name, model in plan.models.items()
    }
    task.done()
    names = _names(order)
    opened, cells = [], []
    for name, side in zip(names, order.sides, strict=True):
        found, of_side = _side(side, plan, work, name or "only", checkpoints)
        opened.append(found)
        cells.append(of_side)
    sender = Sender(client, plan.sampling, plan.environment, plan.timeouts.cell)
    place = Place(
        opened, names, sender, room / LOGS, room / RAW, work, order.port, warm_up=plan.warm_up
    )
    return place, cells, checkpoints


def _side(
    side: Opened | Answering,
    plan: Bench,
    work: Path,
    name: str,
    checkpoints: Mapping[str, Checkpoint],
) -> tuple[Started | Found, list[Cell]]:
    if isinstance(side, Opened):
        site: Site = side.ground.site("after", work, name)
        return Started(site, checkpoints), cells_of(plan)
    ((model, checkpoint),) = checkpoints.items()
    targets = {
        Cell(model, server.k, plan.method, plan.tensor_parallel, plan.timeouts): Target(
            server.client, server.served, str(checkpoint.folder)
        )
        for server in sorted(side.servers, key=lambda server: server.k)
    }
    return Found(targets), list(targets)
