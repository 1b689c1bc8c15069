"""All that a benchmark was, and all that came of it, as one JSON document in a folder."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from vpatch import __version__
from vpatch.commands.bench.load_result import LoadLatency, LoadResult
from vpatch.commands.bench.schema import SCHEMA_VERSION, BenchRecord
from vpatch.errors import UsageError, VpatchError
from vpatch.harness.measured import Fault
from vpatch.harness.predict import Counters
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bench.measure import LoadRun

RECORD = "bench.json"
_ANOTHER = f"name a folder that vpatch bench made, or its {RECORD}"
RAW = "raw"
_LARGEST = 256 * MEGABYTE
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class RecordError(VpatchError):
    """A record that is not there, or not whole."""


class NoRecordError(UsageError, RecordError):
    """There is no record at the path."""

    code = "bench.record-not-found"


@dataclass(frozen=True)
class BenchRun:
    """A benchmark. `asked` is what the command line said.

    `client` is the version of the vLLM that sent the loads. `datasets` are digests of the files
    that prompts came from, by the names of their shapes. Of what was measured, each of `sides`
    has `name` (A and B, or nothing) and `what` in words, its `machine`, and digests. `planned` is
    how many points there were to be. What is not known of running servers is not in the `plan`, and
    no digest in `models`.
    """

    name: str
    made: str
    asked: Mapping[str, Any]
    plan: Mapping[str, Any]
    client: str
    models: Mapping[str, Mapping[str, Any]]
    datasets: Mapping[str, str]
    sides: Sequence[Mapping[str, Any]]
    points: Sequence[LoadRun]
    planned: int
    # On a cluster: what is known of each node, by its name.
    machines: Mapping[str, Mapping[str, Any]] | None = None


def record_of(ran: BenchRun) -> dict[str, Any]:
    """Return the record of a benchmark, as `BenchRecord` describes it.

    It is not validated: hours of measuring must not be lost by one odd figure.
    """
    record = {
        "schema_version": SCHEMA_VERSION,
        "vpatch": __version__,
        "name": ran.name,
        "made": ran.made,
        "asked": dict(ran.asked),
        "client": {"vllm": ran.client},
        "models": dict(ran.models),
        "datasets": dict(ran.datasets),
        "plan": dict(ran.plan),
        "sides": [dict(side) for side in ran.sides],
        "planned": ran.planned,
        "points": [_point(point) for point in ran.points],
    }
    if ran.machines is not None:
        record["machines"] = {name: dict(facts) for name, facts in ran.machines.items()}
    return record


def read_record(place: Path) -> dict[str, Any]:
    """Read a record of any version, by its folder or file, as this version writes it.

    Raises:
        NoRecordError: there is none.
        RecordError: it cannot be read, or its format is unknown.
    """
    file = place / RECORD if place.is_dir() else place
    try:
        found = _cleaned(parse_json(read_file(file, _LARGEST)))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoRecordError("there is no such record", where=str(file), hint=_ANOTHER) from error
    except OSError as error:
        raise RecordError(
            f"the record cannot be read: {error.strerror}",
            where=str(file),
            hint=_ANOTHER,
            code="bench.unreadable-record",
        ) from error
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"it is not a record: {error}",
            where=str(file),
            hint=_ANOTHER,
            code="bench.unreadable-record",
        ) from error
    if not isinstance(found, dict) or not found.keys() >= {"points", "sides", "plan"}:
        raise RecordError(
            "it is not a record of a benchmark",
            where=str(file),
            hint=_ANOTHER,
            code="bench.unreadable-record",
        )
    if found.get("schema_version") != SCHEMA_VERSION and found.get("record-version") != 1:
        raise RecordError(
            "this vpatch does not know this kind of record",
            where=str(file),
            hint="use the version of vpatch that wrote it",
            code="bench.unknown-version",
        )
    try:
        record = BenchRecord.model_validate(found)
    except ValidationError as error:
        raise RecordError(
            f"the record is not complete: {first_of(error)}",
            where=str(file),
            hint="use the record as vpatch bench wrote it",
            code="bench.unreadable-record",
        ) from error
    # What is not known of a side or of a plan is left out.
    return record.model_dump(mode="json", exclude_unset=True)


def _cleaned(value: Any) -> Any:
    """The same without what a terminal would obey, or what ends a line of a table."""
    if isinstance(value, str):
        return _CONTROL.sub(" ", value)
    if isinstance(value, dict):
        return {_CONTROL.sub(" ", key): _cleaned(one) for key, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list) else value


def _point(point: LoadRun) -> dict[str, Any]:
    load, result = point.load, point.result
    node = {"node": point.node} if point.node else {}
    return node | {
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
        "fault": result.recorded() if isinstance(result, Fault) else None,
    }


def result_from(point: Mapping[str, Any]) -> LoadResult | Fault:
    """Return what came of a point of a record."""
    if point["fault"] is not None:
        fault = point["fault"]
        return Fault(fault["kind"], fault["what"], fault["cause"], tuple(fault["ending"]))
    found = dict(point["measured"])
    counters, latencies = dict(found.pop("counters")), found.pop("latency_ms")
    counters["per_position"] = tuple(counters["per_position"])
    return LoadResult(
        **found,
        latencies={
            name: LoadLatency(**one | {"quantiles": tuple(one["quantiles"])})
            for name, one in latencies.items()
        },
        counters=Counters(**counters),
    )


def _measured(measured: LoadResult) -> dict[str, Any]:
    return {
        "seconds": measured.seconds,
        "requests": measured.requests,
        "input_tokens": measured.input_tokens,
        "output_tokens": measured.output_tokens,
        "output_tokens_per_second": measured.output_tokens_per_second,
        "latency_ms": {name: asdict(one) for name, one in measured.latencies.items()},
        "counters": asdict(measured.counters),
        "cached_tokens": measured.cached_tokens,
    }
