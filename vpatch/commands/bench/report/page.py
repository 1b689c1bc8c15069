"""A record as a page of its own: one file, which asks nobody for anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.bench.facts import failed, notes, plan_lines, shape_words, side_lines
from vpatch.commands.bench.report.plots import plots_of
from vpatch.commands.bench.report.scene import PlotData
from vpatch.commands.bench.report.tables import (
    latency_table,
    matrix_table,
    results_table,
    sides_table,
)
from vpatch.commands.bench.summary import between, rows_of, sides_of, speed_ups
from vpatch.util.html_page import render_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.bench.report.plots import Plot
    from vpatch.commands.bench.report.tables import Table
    from vpatch.commands.bench.schema import BenchRecord

_TEMPLATE = Path(__file__).parent / "page.html"


@dataclass(frozen=True)
class Part:
    """What one model made of one shape; `words` say what the shape is."""

    anchor: str
    title: str
    words: str
    plots: tuple[Plot, ...]
    tables: tuple[Table, ...]


def page_of(record: BenchRecord) -> str:
    """Return a record as a whole HTML page."""
    begun = datetime.fromisoformat(record.made)
    measured = sum(point.measured is not None for point in record.points)
    return render_page(
        _TEMPLATE,
        record=record,
        made=f"{begun.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        measured=measured,
        runs=len(record.points),
        planned=record.planned,
        failed=failed(record),
        notes=notes(record),
        sides=side_lines(record),
        plan=plan_lines(record),
        matrix=list(_matrix(record)),
        parts=list(_parts(record)),
    )


def _matrix(record: BenchRecord) -> Iterator[Table]:
    """Yield a table for each load, if the recipe has a matrix."""
    if all(side.point is None for side in record.sides):
        return
    rows = rows_of(record)
    ratios = speed_ups(rows)
    for shape, concurrency in dict.fromkeys((row.key.shape, row.key.concurrency) for row in rows):
        own = [r for r in rows if (r.key.shape, r.key.concurrency) == (shape, concurrency)]
        yield matrix_table(own, ratios, record.sides, f"{shape} at concurrency {concurrency}")


def _parts(record: BenchRecord) -> Iterator[Part]:
    rows, sides = rows_of(record), [side.name for side in record.sides]
    # Of all rows, not of a part's: an interval is as wide as there are ratios to be wrong about.
    speed_up, pairs = speed_ups(rows), sides_of(rows)
    against = between(pairs)
    words = shape_words(record)
    places = list(dict.fromkeys((row.key.model, row.key.shape) for row in rows))
    for number, (model, shape) in enumerate(places, 1):
        mine = [row for row in rows if (row.key.model, row.key.shape) == (model, shape)]
        own = {key: pair for key, pair in pairs.items() if (key.model, key.shape) == (model, shape)}
        tables = [results_table(mine, speed_up, sides)]
        if any(row.runs for row in mine):
            tables.append(latency_table(mine, sides))
        if own:
            tables.append(sides_table(own, against, sides))
        scene = PlotData(f"{model}, {shape}", mine, sides, speed_up)
        yield Part(
            anchor=f"part-{number}",
            title=f"{model}, {shape}",
            words=words.get(shape, ""),
            plots=tuple(plots_of(scene)),
            tables=tuple(tables),
        )
