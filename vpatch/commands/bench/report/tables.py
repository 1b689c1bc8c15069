"""The tables of a record's page: exact numbers, and remarks on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bench.load_result import FIGURES, LATENCIES
from vpatch.commands.bench.summary import JUDGED, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.bench.schema import Side
    from vpatch.commands.bench.summary import Key, Ratio, Row

_TITLES = {THROUGHPUT: "output tokens/s"}
MATRIX_LATENCIES = ("ttft", "tpot", "e2el")
_WORDS = {"side", "verdict", "by position, %", "model", "vLLM", "patches", "device"}
_CLASSES = {"better": "better", "worse": "worse"}


@dataclass(frozen=True)
class TableCell:
    """`kind` is a class: number, better, worse, or unsaid for what must not look like a result."""

    text: str
    kind: str = ""
    span: int = 1


_NONE = TableCell("-", "number unsaid")


@dataclass(frozen=True)
class Table:
    """`heads` are its lines of headings; the last line has one heading for each column."""

    title: str
    words: str
    heads: tuple[tuple[TableCell, ...], ...]
    body: tuple[tuple[TableCell, ...], ...]


def results_table(rows: Sequence[Row], ratios: Mapping[Key, Ratio], sides: Sequence[str]) -> Table:
    """Return throughput, speed-up and acceptance of each row."""
    heads = [*_place_heads(sides), "runs", "output tokens/s", "speed-up over k = 0", "verdict"]
    heads += ["acceptance rate, %", "acceptance length", "by position, %"]
    body = []
    for row in rows:
        speed = _runs(row), _speed(row), *_judgement(ratios.get(row.key))
        body.append((*_place(row.key, sides), *speed, *_counter_cells(row)))
    return Table(
        "Throughput and acceptance",
        "Mean ± standard deviation over the runs. Acceptance counts all runs together.",
        (tuple(_head(text) for text in heads),),
        tuple(body),
    )


def latency_table(rows: Sequence[Row], sides: Sequence[str]) -> Table:
    """Return all figures of all latencies, in ms."""
    places = _place_heads(sides)
    above = [TableCell("", span=len(places))]
    above += [TableCell(f"{name.upper()}, ms", "group", len(FIGURES)) for name in LATENCIES]
    heads = [_head(text) for text in (*places, *(FIGURES * len(LATENCIES)))]
    names = [f"{name} {figure}" for name in LATENCIES for figure in FIGURES]
    body = [(*_place(row.key, sides), *(_latency(row.mean(n)) for n in names)) for row in rows]
    words = "Each is the mean of what the runs have, as vllm bench serve gives it."
    return Table("Latencies", words, (tuple(above), tuple(heads)), tuple(body))


def sides_table(
    pairs: Mapping[Key, tuple[Row, Row]],
    ratios: Mapping[tuple[Key, str], Ratio],
    sides: Sequence[str],
) -> Table:
    """Return the figures of further sides as multiples of the first side's."""
    above = [TableCell("", span=3)]
    above += [
        TableCell(_TITLES.get(f, f.upper().replace("MEAN", "mean")), "group", 2) for f in JUDGED
    ]
    heads = [*map(_head, _place_heads(sides))]
    heads += [cell for _ in JUDGED for cell in (TableCell("ratio", "number"), TableCell("verdict"))]
    body = []
    for key, (base, _) in pairs.items():
        ks = str(key.k) if key.k == base.key.k else f"{key.k} / {base.key.k}"
        place = (
            TableCell(str(key.concurrency), "number"),
            TableCell(ks, "number"),
            TableCell(f"{sides[key.side]} / {sides[base.key.side]}"),
        )
        judged = [cell for f in JUDGED for cell in _judgement(ratios.get((key, f)))]
        body.append((*place, *judged))
    return Table(
        f"Against {sides[0]}",
        f"The figures of a side by those of {sides[0]}: of tokens/s more is better, of latencies "
        "less. Intervals hold with 95 % for all ratios of sides on this page together.",
        (tuple(above), tuple(heads)),
        tuple(body),
    )


def matrix_table(
    rows: Sequence[Row],
    ratios: Mapping[Key, Ratio],
    sides: Sequence[Side],
    load: str,
) -> Table:
    """Return what every side makes of every model and k, under one load."""
    heads = ["model", "k", "side", "vLLM", "patches", "device", "output tokens/s"]
    heads += ["speed-up over k = 0", "verdict", "acceptance rate, %", "acceptance length"]
    heads += [f"{name.upper()} mean, ms" for name in MATRIX_LATENCIES]
    body = []
    for row in sorted(rows, key=lambda row: (row.key.model, row.key.k, row.key.side)):
        side = sides[row.key.side]
        rate, length, _ = _counter_cells(row)
        body.append(
            (
                TableCell(row.key.model),
                TableCell(str(row.key.k), "number"),
                *(TableCell(text) for text in (side.name, *_point(side))),
                _speed(row),
                *_judgement(ratios.get(row.key)),
                rate,
                length,
                *(_latency(row.mean(f"{name} mean")) for name in MATRIX_LATENCIES),
            )
        )
    words = "Each side is a release, a set of patches and a kind of machine."
    return Table(load, words, (tuple(_head(text) for text in heads),), tuple(body))


def _point(side: Side) -> Iterator[str]:
    """The release, the patches and the device of a side, by the names of the matrix if it has."""
    point, subject = side.point or {}, side.subject or ()
    count = sum(len(tree.patches) for tree in subject)
    yield "not known" if side.engine is None else side.engine.vllm
    yield point.get("patches") or (str(count) if subject else "not known")
    chips = list(dict.fromkeys(gpu.name for gpu in side.machine.gpus))
    yield point.get("hardware") or ", ".join(chips) or side.machine.processor


def _head(text: str) -> TableCell:
    return TableCell(text, "" if text in _WORDS else "number")


def _place_heads(sides: Sequence[str]) -> list[str]:
    return ["concurrency", "k", *(["side"] if len(sides) > 1 else [])]


def _place(key: Key, sides: Sequence[str]) -> Iterator[TableCell]:
    yield TableCell(str(key.concurrency), "number")
    yield TableCell(str(key.k), "number")
    if len(sides) > 1:
        yield TableCell(sides[key.side])


def _runs(row: Row) -> TableCell:
    planned = len(row.runs) + len(row.faults)
    if not row.faults:
        return TableCell(str(planned), "number")
    return TableCell(f"{len(row.runs)} of {planned}", "number worse")


def _speed(row: Row) -> TableCell:
    mean, spread = row.mean(THROUGHPUT), row.spread(THROUGHPUT)
    if mean is None:
        return _NONE
    return TableCell(f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}", "number")


def _latency(mean: float | None) -> TableCell:
    return _NONE if mean is None else TableCell(f"{mean:.2f}", "number")


def _judgement(ratio: Ratio | None) -> tuple[TableCell, TableCell]:
    """A ratio and what is to be thought of it, which is the same as nothing where it is unsaid."""
    if ratio is None:
        return _NONE, TableCell("")
    kind = _CLASSES.get(ratio.verdict, "unsaid")
    return TableCell(str(ratio), f"number {kind}"), TableCell(ratio.verdict, kind)


def _counter_cells(row: Row) -> Iterator[TableCell]:
    counters = row.counters
    if counters is None:
        yield from (_NONE, _NONE, TableCell(""))
        return
    yield TableCell(f"{100 * (counters.rate or 0):.1f}", "number")
    yield TableCell(f"{counters.length or 1:.3f}", "number")
    yield TableCell(
        " / ".join(f"{100 * one / counters.drafts:.1f}" for one in counters.per_position)
    )
