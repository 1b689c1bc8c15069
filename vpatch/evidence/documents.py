"""A record as the document that `results.json` has: the same keys, in the same order, each time."""

from __future__ import annotations

from typing import Any

from vpatch.evidence import records

_OF_ANY_RECORD = (
    *("schema_version", "kind", "vpatch", "name", "made", "digest", "asked", "subject"),
    *("engine", "machine"),
)
_OF_SMOKE = ("models", "plan", "imports", "cells", "inherited", "symptoms", "image", "machines")
_OF_A_TEST = ("patch", "test", "proof", "runs", "problems")
# Keys that a document has before all others. Those follow in the order of the model's fields.
_FIRST: dict[type[records.EvidencePart], tuple[str, ...]] = {
    records.SmokeRecord: (*_OF_ANY_RECORD, *_OF_SMOKE, "result"),
    records.BehaviourTestRecord: (*_OF_ANY_RECORD, *_OF_A_TEST, "result"),
    records.SubjectPin: ("tree", "kind", "version", "digest", "origin"),
    records.RunMachine: ("system",),
    records.CellRecord: tuple(name for name in records.CellRecord.model_fields if name != "point"),
    records.MatrixPointRecord: ("name", "folder", "vllm", "patches", "hardware"),
}


def document_of(part: records.EvidencePart) -> records.JsonObject:
    """Return a part of a record as plain data for JSON. What was not written stays away."""
    values = {name: getattr(part, name) for name in type(part).model_fields}
    values |= part.model_extra or {}
    order = dict.fromkeys([*_FIRST.get(type(part), ()), *values])
    is_written = part.model_fields_set | (part.model_extra or {}).keys()
    return {name: _plain(values[name]) for name in order if name in is_written}


def _plain(value: Any) -> Any:
    match value:
        case records.EvidencePart():
            return document_of(value)
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value
