"""All servers of a benchmark in turn, each with its loads."""

from __future__ import annotations

import math
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.bench.cells import warm_up_of
from vpatch.bench.load import Target, send
from vpatch.engine.overlay import OverlayError
from vpatch.engine.process import LogError
from vpatch.smoke.client import MODEL, Client
from vpatch.smoke.faults import fault
from vpatch.smoke.launch import await_health, command_of, free_port, stop, url_of
from vpatch.smoke.measured import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vpatch.bench.cells import Cell, Load, Visit
    from vpatch.bench.load import Sender
    from vpatch.bench.measured import Measured
    from vpatch.engine.process import Running
    from vpatch.smoke.models import Checkpoint
    from vpatch.smoke.site import Site

# A worker's death ends the server a little later than the answers.
_DEATH_SECONDS = 15.0


@dataclass(frozen=True)
class Started:
    """A side whose servers are started and stopped: on a site, with the models of a plan."""

    site: Site
    checkpoints: Mapping[str, Checkpoint]


@dataclass(frozen=True)
class Found:
    """A side whose servers were there before, by the cell that each of them is."""

    targets: Mapping[Cell, Target]


@dataclass(frozen=True)
class Point:
    """One run of a load, and what came of it. `side` is its place among all sides."""

    side: int
    cell: Cell
    load: Load
    repeat: int
    log: Path
    raw: Path
    result: Measured | Fault


@dataclass(frozen=True)
class Place:
    """Where a benchmark runs. `logs` and `raw` are kept; `port` is of the servers, if given."""

    sides: Sequence[Started | Found]
    names: Sequence[str]
    sender: Sender
    logs: Path
    raw: Path
    room: Path
    port: int | None = None
    warm_up: bool = True


def measure(
    place: Place,
    visits: Sequence[Visit],
    begin: Callable[[str], Callable[[], None]],
) -> Iterator[Point]:
    """Make all visits, and yield each point; `begin` is told what is next, and ends it.

    What did not start once is not started again: on large checkpoints, that costs hours.
    """
    dead: dict[tuple[int, Cell], str] = {}
    for number, visit in enumerate(visits, 1):
        turn = _Turn(place, visit, number, f"{number} of {len(visits)}", begin)
        key = visit.side, visit.cell
        if key in dead:
            results = turn.all(Fault("not run", f"it did not start before: {dead[key]}"))
        else:
            with tempfile.TemporaryDirectory(dir=place.room) as room:
                try:
                    results = turn.results(Path(room))
                except LogError as error:
                    results = turn.all(Fault("lost its log", error.what))
        for load, result in zip(visit.loads, results, strict=True):
            if isinstance(result, Fault) and result.kind == "does not start":
                dead[key] = result.what
            log, raw = turn.log(load.name), turn.raw(load.name)
            yield Point(visit.side, visit.cell, load, visit.repeat, log, raw, result)


@dataclass(frozen=True)
class _Turn:
    """A visit that is made now; `which` says in words how far the run has come."""

    place: Place
    visit: Visit
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
        return f"{self.number:03}-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.title} {what}")

    def all(self, found: Fault) -> list[Measured | Fault]:
        return [found] * len(self.visit.loads)

    def results(self, room: Path) -> list[Measured | Fault]:
        side = self.place.sides[self.visit.side]
        if isinstance(side, Found):
            return self._sent(side.targets[self.visit.cell], None, room)
        with self._serving(side, room) as server:
            if isinstance(server, Fault):
                return self.all(server)
            results = self._sent(*server, room)
        try:
            side.site.verify()
        except OverlayError as error:
            return self.all(Fault("tampered with", f"{error.where}: {error.what}"))
        return results

    @contextmanager
    def _serving(self, side: Started, room: Path) -> Iterator[tuple[Target, Running] | Fault]:
        """Start a server, and stop it after the block."""
        cell, taken = self.visit.cell, free_port(self.place.port)
        if taken is None:
            what = f"port {self.place.port} is in use on this machine"
            yield Fault("not run", what)  # the next time it may be free
            return
        model = side.checkpoints[cell.model].folder
        command = command_of(cell, model, side.site, taken)
        log = self.log("server")
        ended = self.begin(f"{self.which}: {self.title}, starting")
        with side.site.started(command, room=room, log=log, further=cell.environment) as child:
            client = Client(url_of(taken), cell.timeouts.token, math.inf)
            found = await_health(child, cell.timeouts.start, client)
            ended()
            if found is not None:
                yield found
                return
            yield Target(client, MODEL, str(model)), child
            if child.poll() is None:
                # Asked, and not only killed; whether it then ends is what `vpatch smoke` tells.
                stop(child, cell.timeouts)

    def _sent(self, target: Target, child: Running | None, room: Path) -> list[Measured | Fault]:
        """Send all loads, after a warm-up; what the server does not survive ends them."""
        loads = self.visit.loads
        if self.place.warm_up:
            warm = self._send(
                "warm-up",
                warm_up_of(loads, _longest(self.visit.cell)),
                target,
                room,
                room / "warm-up.json",
            )
            if isinstance(warm, Fault):
                warm = _because(warm, child)
                return self.all(replace(warm, what=f"while warming up: {warm.what}"))
        results: list[Measured | Fault] = []
        for load in loads:
            if child is not None and child.poll() is not None:
                results.append(Fault("not run", "the server had ended"))
                continue
            result = self._send(load.name, load, target, room, self.raw(load.name))
            results.append(_because(result, child) if isinstance(result, Fault) else result)
        return results

    def _send(
        self, what: str, load: Load, target: Target, room: Path, raw: Path
    ) -> Measured | Fault:
        ended = self.begin(f"{self.which}: {self.title}, {what}")
        result = send(load, target, self.place.sender, room, self.log(what), raw)
        ended()
        return result


def _longest(cell: Cell) -> int | None:
    """How many tokens a model takes, where the plan says so in digits, and not as 32k."""
    found = cell.flags.get("max-model-len")
    return found if isinstance(found, int) else None


def _because(found: Fault, child: Running | None) -> Fault:
    """A fault of requests, or that of the server, where it is why."""
    if child is None or found.kind != "wrong answer":
        return found
    code = child.wait(_DEATH_SECONDS)
    if code is None:
        return found
    return fault("crashed", f"the server ended with {code}", child.log)
