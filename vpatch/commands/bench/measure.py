"""All servers of a benchmark in turn, each with its loads."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.bench.cells import warm_up_of
from vpatch.commands.bench.load import LoadTarget, send
from vpatch.engine.overlay import OverlayError
from vpatch.engine.process import LogError
from vpatch.harness.client import MODEL, Client
from vpatch.harness.faults import fault
from vpatch.harness.launch import await_health, command_of, free_port, stop, url_of
from vpatch.harness.measured import Fault
from vpatch.runs.matrix import slug_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vpatch.commands.bench.cells import BenchCell, Load, ServerRun
    from vpatch.commands.bench.load import Sender
    from vpatch.commands.bench.load_result import LoadResult
    from vpatch.engine.process import Running
    from vpatch.harness.models import PreparedModel
    from vpatch.harness.sandbox import Sandbox

# A worker's death ends the server a little later than the answers.
_DEATH_SECONDS = 15.0


@dataclass(frozen=True)
class LoadRun:
    """One run of a load, and what came of it. `side` is its place among all sides.

    `node` is where it ran, if that was a cluster.
    """

    side: int
    cell: BenchCell
    load: Load
    repeat: int
    log: Path
    raw: Path
    result: LoadResult | Fault
    node: str | None = None


@dataclass(frozen=True)
class BenchContext:
    """Where a benchmark runs. `logs` and `raw` are kept; `port` is of the servers, if given.

    A side is the sandbox of servers that are started with one of the `checkpoints`, and stopped. Or
    it has the servers that were there before, by the cell that each of them is.
    """

    sides: Sequence[Sandbox | Mapping[BenchCell, LoadTarget]]
    checkpoints: Mapping[str, PreparedModel]
    names: Sequence[str]
    sender: Sender
    logs: Path
    raw: Path
    workdir: Path
    port: int | None = None
    warm_up: bool = True


def measure(
    place: BenchContext,
    visits: Sequence[ServerRun],
    begin: Callable[[str], Callable[[], None]],
) -> Iterator[LoadRun]:
    """Make all visits, and yield each point; `begin` is told what is next, and ends it.

    What did not start once is not started again: on large checkpoints, that costs hours.
    """
    dead: dict[tuple[int, BenchCell], str] = {}
    for number, visit in enumerate(visits, 1):
        turn = _Turn(place, visit, number, f"{number} of {len(visits)}", begin)
        key = visit.side, visit.cell
        if key in dead:
            results = turn.all(Fault("not run", f"it did not start before: {dead[key]}"))
        else:
            with tempfile.TemporaryDirectory(dir=place.workdir) as workdir:
                try:
                    results = turn.results(Path(workdir))
                except LogError as error:
                    results = turn.all(Fault("lost its log", error.what))
        for load, result in zip(visit.loads, results, strict=True):
            if isinstance(result, Fault) and result.kind == "does not start":
                dead[key] = result.what
            log, raw = turn.log(load.name), turn.raw(load.name)
            yield LoadRun(visit.side, visit.cell, load, visit.repeat, log, raw, result)


@dataclass(frozen=True)
class _Turn:
    """A visit that is made now; `which` says in words how far the run has come."""

    place: BenchContext
    visit: ServerRun
    number: int
    which: str
    begin: Callable[[str], Callable[[], None]]

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.place.names[self.visit.side], self.visit.cell.name)))

    def log(self, what: str) -> Path:
        return self.place.logs / f"{self._file(what)}.log"

    def raw(self, what: str) -> Path:
        return self.place.raw / f"{self._file(what)}.json"

    def _file(self, what: str) -> str:
        return f"{self.number:03}-" + slug_of(f"{self.title} {what}")

    def all(self, failure: Fault) -> list[LoadResult | Fault]:
        return [failure] * len(self.visit.loads)

    def results(self, workdir: Path) -> list[LoadResult | Fault]:
        side = self.place.sides[self.visit.side]
        if isinstance(side, Mapping):
            return self._send_all(side[self.visit.cell], None, workdir)
        with self._serve(side, workdir) as server:
            if isinstance(server, Fault):
                return self.all(server)
            results = self._send_all(*server, workdir)
        try:
            side.verify()
        except OverlayError as error:
            return self.all(Fault("tampered with", f"{error.where}: {error.what}"))
        return results

    @contextmanager
    def _serve(
        self, sandbox: Sandbox, workdir: Path
    ) -> Iterator[tuple[LoadTarget, Running] | Fault]:
        """Start a server, and stop it after the block."""
        cell, taken = self.visit.cell, free_port(self.place.port)
        if taken is None:
            what = f"port {self.place.port} is in use on this machine"
            yield Fault("not run", what)  # the next time it may be free
            return
        model = self.place.checkpoints[cell.model].folder
        command = command_of(cell, model, sandbox, taken)
        log = self.log("server")
        ended = self.begin(f"{self.which}: {self.title}, starting")
        with sandbox.started(
            command, workdir=workdir, log=log, extra_env=cell.environment
        ) as child:
            client = Client(url_of(taken), cell.timeouts.token, math.inf)
            failure = await_health(child, cell.timeouts.start, client)
            ended()
            if failure is not None:
                yield failure
                return
            yield LoadTarget(client, MODEL, str(model)), child
            if child.poll() is None:
                # Asked, and not only killed; whether it then ends is what `vpatch smoke` tells.
                stop(child, cell.timeouts)

    def _send_all(
        self, target: LoadTarget, child: Running | None, workdir: Path
    ) -> list[LoadResult | Fault]:
        """Send all loads, after a warm-up; what the server does not survive ends them."""
        loads = self.visit.loads
        if self.place.warm_up:
            warm = self._send(
                "warm-up",
                warm_up_of(loads, _longest(self.visit.cell)),
                target,
                workdir,
                workdir / "warm-up.json",
            )
            if isinstance(warm, Fault):
                warm = _because(warm, child)
                return self.all(replace(warm, what=f"while warming up: {warm.what}"))
        results: list[LoadResult | Fault] = []
        for load in loads:
            if child is not None and child.poll() is not None:
                results.append(Fault("not run", "the server had ended"))
                continue
            result = self._send(load.name, load, target, workdir, self.raw(load.name))
            results.append(_because(result, child) if isinstance(result, Fault) else result)
        return results

    def _send(
        self, what: str, load: Load, target: LoadTarget, workdir: Path, raw: Path
    ) -> LoadResult | Fault:
        ended = self.begin(f"{self.which}: {self.title}, {what}")
        result = send(load, target, self.place.sender, workdir, self.log(what), raw)
        ended()
        return result


def _longest(cell: BenchCell) -> int | None:
    """How many tokens a model takes, where the plan says so in digits, and not as 32k."""
    limit = cell.flags.get("max-model-len")
    return limit if isinstance(limit, int) else None


def _because(failure: Fault, child: Running | None) -> Fault:
    """A fault of requests, or that of the server, where it is why."""
    if child is None or failure.kind != "wrong answer":
        return failure
    code = child.wait(_DEATH_SECONDS)
    if code is None:
        return failure
    return fault("crashed", f"the server ended with {code}", child.log)
