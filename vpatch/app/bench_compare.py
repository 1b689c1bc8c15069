"""The use case `bench compare`: records side by side, if they measured the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.bench.match import aligned, differences, in_common, joined, most_sides
from vpatch.bench.record import read_record
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LEAST = 2


@dataclass(frozen=True)
class Comparison:
    """What came of comparing records.

    `differing` has what should be equal and is not, by its words, with its kind. `common` says
    whether anything was measured in all records. `record` joins them; None if they were not joined.
    """

    differing: Mapping[str, str]
    common: bool
    record: dict[str, Any] | None


def compare_records(places: Sequence[Path], despite: Sequence[str]) -> Comparison:
    """Read records and join them, unless they differ in other kinds than `despite`.

    Raises:
        UsageError: there is only one record, or there are too many sides.
        VpatchError: a record cannot be read.
    """
    if len(places) < _LEAST:
        raise UsageError(
            "one record cannot be compared",
            hint="name another record",
            code="cli.missing-option",
        )
    found = aligned([read_record(place) for place in places])
    sides = sum(len(record["sides"]) for record in found)
    if sides > most_sides():
        raise UsageError(
            f"{sides} sides are too many: each gets a letter",
            hint="compare fewer records",
            code="bench.too-many-records",
        )
    differing = {
        str(difference): difference.kind
        for other in found[1:]
        for difference in differences(found[0], other)
    }
    common = bool(in_common(found))
    refused = not common or any(kind not in despite for kind in differing.values())
    return Comparison(differing, common, None if refused else joined(found, list(differing)))
