"""All that a benchmark was, and all that came of it, as one JSON document in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vpatch import __version__
from vpatch.errors import VpatchError
from vpatch.smoke.measured import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.bench.measure import Point
    from vpatch.bench.measured import Measured
    from vpatch.declare.bench import Bench
    from vpatch.smoke.models import Checkpoint

RECORD = "bench.json"
RAW = "raw"
_VERSION = 1


class RecordError(VpatchError):
    """A record that is not there, or not whole."""


@dataclass(frozen=True)
class Ran:
    """A benchmark. `asked` is what the command line said.

    `client` is the version of the vLLM that sent the loads. `datasets` are digests of the files
    that prompts came from, by the names of their shapes. Of what was measured, each of `sides`
    has `name` (A and B, or nothing) and `what` in words, its `machine`, and digests. `planned` is
    how many points there were to be.
    """

    name: str
    made: str
    asked: Mapping[str, Any]
    plan: Bench
    client: str
    checkpoints: Mapping[str, Checkpoint]
    datasets: Mapping[str, str]
    sides: Sequence[Mapping[str, Any]]
    points: Sequence[Point]
    planned: int


def record_of(ran: Ran) -> dict[str, Any]:
    return {
        "record-version": _VERSION,
        "vpatch": __version__,
        "name": ran.name,
        "made": ran.made,
        "asked": dict(ran.asked),
        "client": {"vllm": ran.client},
        "models": {
            name: {"model": one.described, "digest": one.digest}
            for name, one in ran.checkpoints.items()
        },
        "datasets": dict(ran.datasets),
        "plan": ran.plan.model_dump(mode="json", exclude_none=True),
        "sides": [dict(side) for side in ran.sides],
        "planned": ran.planned,
        "points": [_point(point) for point in ran.points],
    }


def read_record(place: Path) -> dict[str, Any]:
    """Read a record, by its folder or file.

    Raises:
        RecordError: there is none, or it is no record that is known.
    """
    file = place / RECORD if place.is_dir() else place
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(
            f"there is no record: {error.strerror}",
            where=str(file),
            todo=f"name a folder that vpatch bench made, or its {RECORD}",
        ) from error
    except ValueError as error:
        raise RecordError(f"is no record: {error}", where=str(file)) from error
    if not isinstance(record, dict) or not record.keys() >= {"points", "sides", "plan"}:
        raise RecordError("is no record of a benchmark", where=str(file))
    if record.get("record-version") != _VERSION:
        raise RecordError("is no record that this vpatch knows", where=str(file))
    return record


def _point(point: Point) -> dict[str, Any]:
    load, result = point.load, point.result
    failed = isinstance(result, Fault)
    return {
        "side": point.side,
        "model": point.cell.model,
        "k": point.cell.k,
        "shape": load.shape.name,
        "concurrency": load.concurrency,
        "repeat": point.repeat,
        "prompts": load.prompts,
        "seed": load.seed,
        "log": f"logs/{point.log.name}" if point.log.exists() else None,
        "raw": f"{RAW}/{point.raw.name}" if point.raw.exists() else None,
        "measured": None if isinstance(result, Fault) else _measured(result),
        "fault": asdict(result) if failed else None,
    }


def _measured(measured: Measured) -> dict[str, Any]:
    return {
        "seconds": measured.seconds,
        "requests": measured.requests,
        "input-tokens": measured.input_tokens,
        "output-tokens": measured.output_tokens,
        "output-tokens-per-second": measured.output_tokens_per_second,
        "latency-ms": {name: asdict(one) for name, one in measured.latencies.items()},
        "counters": asdict(measured.counters),
        "cached-tokens": measured.cached_tokens,
    }
