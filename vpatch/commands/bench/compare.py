"""The use case `bench compare`: records side by side, if they measured the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bench.cells import LETTERS
from vpatch.commands.bench.match import aligned, differences, in_common, joined, picked
from vpatch.commands.bench.record import read_record
from vpatch.errors import BadValueError, MissingOptionError, UnusedOptionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bench.schema import BenchRecord

_LEAST = 2


@dataclass(frozen=True)
class Comparison:
    """What came of comparing records.

    `differing` has what should be equal and is not, by its words, with its kind. `common` says
    whether anything was measured in all records. `record` joins them; None if they were not joined.
    """

    differing: Mapping[str, str]
    common: bool
    record: BenchRecord | None


def compare_records(
    places: Sequence[Path], despite: Sequence[str], sides: str | None = None
) -> Comparison:
    """Read records and join them, unless they differ in other kinds than `despite`.

    Of one record, its own sides are compared: those that `sides` names, as `A,C`, or all.

    Raises:
        UsageError: there is only one record with one side, or there are too many sides.
        VpatchError: a record cannot be read.
    """
    if len(places) < _LEAST:
        return _of_one(read_record(places[0]), sides)
    if sides is not None:
        raise UnusedOptionError(
            "--sides would have no effect with several records",
            hint="leave it out, or name one record",
        )
    records = aligned([read_record(place) for place in places])
    count = sum(len(record.sides) for record in records)
    if count > len(LETTERS):
        raise UsageError(
            f"{count} sides are too many: each gets a letter",
            hint="compare fewer records",
            code="bench.too-many-records",
        )
    differing = {
        str(difference): difference.kind
        for other in records[1:]
        for difference in differences(records[0], other)
    }
    common = bool(in_common(records))
    refused = not common or any(kind not in despite for kind in differing.values())
    return Comparison(differing, common, None if refused else joined(records, list(differing)))


def _of_one(record: BenchRecord, sides: str | None) -> Comparison:
    known = [side.name for side in record.sides]
    if len(known) < _LEAST:
        raise MissingOptionError(
            "one record with one side cannot be compared", hint="name another record"
        )
    names = known if sides is None else [name.strip() for name in sides.split(",")]
    if len(names) < _LEAST or len(set(names)) < len(names) or not set(names) <= set(known):
        raise BadValueError(
            f"{sides!r} does not name two different sides of the record",
            where="--sides",
            hint=f"name some of {', '.join(known)}, as {known[0]},{known[1]}",
        )
    return Comparison({}, common=True, record=picked(record, names))
