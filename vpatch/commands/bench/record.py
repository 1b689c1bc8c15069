"""All that a benchmark was, and all that came of it, as one JSON document in a folder."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from vpatch.commands.bench.schema import (
    SCHEMA_VERSION,
    BenchRecord,
    CountersRecord,
    FaultRecord,
    Latencies,
    LatencyRecord,
    MeasuredRecord,
    PointRecord,
)
from vpatch.declare.bench import Bench
from vpatch.errors import UsageError, VpatchError
from vpatch.harness.measured import Fault
from vpatch.source.tree import Pin
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bench.load_result import LoadResult
    from vpatch.commands.bench.measure import LoadRun

RECORD = "bench.json"
_ANOTHER = f"name a folder that vpatch bench made, or its {RECORD}"
RAW = "raw"
_LARGEST = 256 * MEGABYTE
_T = TypeVar("_T")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# The keys that come first in a file, where the schema has another order.
_OF_RECORD = (
    *("schema_version", "vpatch", "name", "made", "asked", "client", "models", "datasets"),
    *("plan", "sides", "planned", "points"),
)
_OF_PLAN = tuple(field.alias or name for name, field in Bench.model_fields.items())
_OF_PIN = tuple(field.name for field in fields(Pin))
_OF_CLUSTER_SIDE = (
    *("point", "name", "what", "machine", "inherited", "digest", "subject", "engine", "nodes"),
)


class RecordError(VpatchError):
    """A record that is not there, or not whole."""


class NoRecordError(UsageError, RecordError):
    """There is no record at the path."""

    code = "bench.record-not-found"


def write_record(workdir: Path, record: BenchRecord) -> None:
    """Write the record of a benchmark into its folder."""
    (workdir / RECORD).write_text(text_of(record), encoding="utf-8")


def text_of(record: BenchRecord) -> str:
    """Return a record as JSON, as its file has it: with the keys in the order of all files."""
    document = record.model_dump(exclude_unset=True, warnings=False)
    document["plan"] = _order(document["plan"], _OF_PLAN)
    document["points"] = [_order(point, ("node",)) for point in document["points"]]
    for side in document["sides"]:
        for tree in side.get("subject") or ():
            tree["pin"] = _order(tree["pin"], _OF_PIN)
    document["sides"] = [
        _order(side, _OF_CLUSTER_SIDE) if "nodes" in side else side for side in document["sides"]
    ]
    return json.dumps(_order(document, _OF_RECORD), indent=1) + "\n"


def _order(document: Mapping[str, _T], first: Sequence[str]) -> dict[str, _T]:
    return {name: document[name] for name in (*first, *document) if name in document}


def read_record(place: Path) -> BenchRecord:
    """Read a record of any version, by its folder or file.

    Raises:
        NoRecordError: there is none.
        RecordError: it cannot be read, or its format is unknown.
    """
    file = place / RECORD if place.is_dir() else place
    try:
        content = _clean(parse_json(read_file(file, _LARGEST)))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoRecordError("there is no such record", where=str(file), hint=_ANOTHER) from error
    except OSError as error:
        raise _unreadable(file, f"the record cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(file, f"it is not a record: {error}") from error
    if not isinstance(content, dict) or not content.keys() >= {"points", "sides", "plan"}:
        raise _unreadable(file, "it is not a record of a benchmark")
    if content.get("schema_version") != SCHEMA_VERSION and content.get("record-version") != 1:
        raise RecordError(
            "this vpatch does not know this kind of record",
            where=str(file),
            hint="use the version of vpatch that wrote it",
            code="bench.unknown-version",
        )
    try:
        return BenchRecord.model_validate(content)
    except ValidationError as error:
        what = f"the record is not complete: {first_of(error)}"
        hint = "use the record as vpatch bench wrote it"
        raise _unreadable(file, what, hint) from error


def _unreadable(file: Path, what: str, hint: str = _ANOTHER) -> RecordError:
    return RecordError(what, where=str(file), hint=hint, code="bench.unreadable-record")


def _clean(value: Any) -> Any:
    """The same without what a terminal would obey, or what ends a line of a table."""
    if isinstance(value, str):
        return _CONTROL.sub(" ", value)
    if isinstance(value, dict):
        return {_CONTROL.sub(" ", key): _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value


def point_of(run: LoadRun) -> PointRecord:
    """Return what a record has of a run of a load.

    It is not validated: hours of measuring must not be lost by one odd figure.
    """
    load, result = run.load, run.result
    point = PointRecord.model_construct(
        side=run.side,
        model=run.cell.model,
        k=run.cell.k,
        shape=load.shape.name,
        concurrency=load.concurrency,
        repeat=run.repeat,
        prompts=load.prompts,
        seed=load.seed,
        log=f"logs/{run.log.name}" if run.log.exists() else None,
        raw=f"{RAW}/{run.raw.name}" if run.raw.exists() else None,
        measured=None if isinstance(result, Fault) else _measured_record(result),
        fault=FaultRecord.model_validate(result, from_attributes=True)
        if isinstance(result, Fault)
        else None,
    )
    if run.node:
        point.node = run.node
    return point


def _measured_record(result: LoadResult) -> MeasuredRecord:
    latencies = {
        name: LatencyRecord.model_construct(**asdict(one) | {"quantiles": list(one.quantiles)})
        for name, one in result.latencies.items()
    }
    counters = result.counters
    positions = {"per_position": list(counters.per_position)}
    parts = {
        "latency_ms": Latencies.model_construct(None, **latencies),
        "counters": CountersRecord.model_construct(**asdict(counters) | positions),
    }
    figures = {name: one for name, one in asdict(result).items() if name != "latencies"}
    return MeasuredRecord.model_construct(**figures | parts)
