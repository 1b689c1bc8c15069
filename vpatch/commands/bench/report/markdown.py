"""A record as Markdown, for people and pull requests, and as CSV, for other programs."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from vpatch.commands.bench.facts import notes
from vpatch.commands.bench.load_result import FIGURES, LATENCIES
from vpatch.commands.bench.summary import JUDGED, THROUGHPUT, between, rows_of, sides_of, speed_ups
from vpatch.harness.launch import flag_words
from vpatch.util.digest import short_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.bench.schema import BenchRecord
    from vpatch.commands.bench.summary import Key, Ratio, Row

_PLACE = ("model", "in/out", "conc.", "k")
_NONE = "-"
_MARKS = re.compile(r"[\\`\[|]")


def report_of(record: BenchRecord) -> str:
    """Return a record as Markdown; its tables are readable as plain text."""
    return "\n".join(_lines(record)) + "\n"


def csv_of(record: BenchRecord) -> str:
    """Return a line for each run of a load: latencies in ms, counters as vLLM counts them."""
    latencies = [(name, which) for name in LATENCIES for which in FIGURES]
    head = ["side", "model", "k", "prompt_output", "concurrency", "repeat"]
    head += ["requests", "input_tokens", "output_tokens", "seconds", "output_tokens_per_second"]
    head += [f"{name}_{which}_ms" for name, which in latencies]
    head += ["drafts", "draft_tokens", "accepted", "accepted_per_position", "fault"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for point in record.points:
        side, run = record.sides[point.side].name, point.measured
        row: list[str | int | float] = [side, point.model, point.k, point.shape]
        row += [point.concurrency, point.repeat + 1]
        if run is None:
            row += [""] * (len(head) - len(row) - 1) + [str(point.fault)]
        else:
            row += [run.requests, run.input_tokens, run.output_tokens, run.seconds]
            row.append(run.output_tokens_per_second)
            row += [run.latency_ms.of(name).figure(which) for name, which in latencies]
            counters = run.counters
            row += [counters.drafts, counters.draft_tokens, counters.accepted]
            row += [" ".join(map(str, counters.per_position)), ""]
        writer.writerow(row)
    return text.getvalue()


def _lines(record: BenchRecord) -> Iterator[str]:
    rows = rows_of(record)
    names = [side.name for side in record.sides]
    yield f"## Benchmark {_text(record.name)}"
    yield ""
    for line in _subjects(record):
        yield f"- {_text(line)}"
    for note in notes(record):
        yield f"- **{_text(note)}**"
    yield ""
    yield from throughput_table(rows, names)
    yield ""
    yield from _latency_table(rows, names)
    yield from sides_against_a(rows, names)
    faults = list(_faults(rows, names))
    if faults:
        yield from ("", "### Not measured", "", *faults)


def _subjects(record: BenchRecord) -> Iterator[str]:
    for side in record.sides:
        machine = side.machine
        gpus = ", ".join(dict.fromkeys(gpu.name for gpu in machine.gpus))
        chips = f"{len(machine.gpus)} x {gpus}" if gpus else machine.processor
        digest = f" ({short_digest(side.digest)})" if side.digest else ""
        name = f"{side.name}: " if side.name else ""
        yield f"{name}{side.what}{digest}, on {chips}"
    for name, model in record.models.items():
        digest = f" ({short_digest(model.digest)})" if model.digest else ""
        yield f"{name}: {model.model}{digest}"
    plan = record.plan
    sampling = ", ".join(f"{key} {value}" for key, value in plan.sampling.items())
    repeats = f"{plan.repeats} repeats" if plan.repeats > 1 else "once"
    yield (
        f"{repeats}, {plan.prompts} prompts for each of the concurrent requests, {sampling}; "
        f"sent by vllm bench serve of vLLM {record.client.vllm}"
    )
    flags = [" ".join(flag_words(*pair)) for pair in (plan.flags or {}).items()]
    environment = [f"{name}={value}" for name, value in (plan.environment or {}).items()]
    if flags or environment:
        yield " ".join([*environment, *flags])


def _text(text: str) -> str:
    """What somebody else may have written, as text and not as Markdown or HTML."""
    return _MARKS.sub(r"\\\g<0>", text).replace("<", "&lt;")


def throughput_table(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the table that most come for: speed, and what drafts did for it."""
    ratios = speed_ups(rows)
    head = [*_place_head(names), "output tok/s", "speed-up over k=0", "acceptance", "length"]
    head.append("per position")
    body = []
    for row in rows:
        counters = row.counters
        line = [*_place(row.key, names), _speed(row), _judgement(ratios.get(row.key))]
        if counters is None or counters.rate is None or counters.length is None:
            line += [_NONE] * 3
        else:
            per = " ".join(f"{count / counters.drafts:.3f}" for count in counters.per_position)
            line += [f"{counters.rate:.3f}", f"{counters.length:.2f}", per]
        body.append(line)
    yield from _table(head, body)


def _latency_table(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    which = "/".join(FIGURES)
    head = [*_place_head(names), *(f"{name.upper()} {which} (ms)" for name in LATENCIES)]
    body = [[*_place(row.key, names), *(_latency(row, name) for name in LATENCIES)] for row in rows]
    yield from _table(head, body)


def sides_against_a(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield what further sides are against the first, after an empty line; nothing of one side."""
    pairs = sides_of(rows)
    if not pairs:
        return
    yield from (
        "",
        f"How many times as much as {names[0]}, and whether that is more than noise:",
        "",
    )
    ratios = between(pairs)
    titles = {THROUGHPUT: "output tok/s"}
    named = [titles.get(figure, figure.upper().replace("MEAN", "mean")) for figure in JUDGED]
    head = [*_place_head(names), *named]
    body = [
        [*_place(key, names), *(_judgement(ratios.get((key, figure))) for figure in JUDGED)]
        for key in pairs
    ]
    yield from _table(head, body)


def _faults(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    for row in rows:
        for fault in dict.fromkeys(row.faults):
            count = row.faults.count(fault)
            times = f" ({count} times)" if count > 1 else ""
            yield f"- {_text(_key_text(row.key, names))}: {_text(fault)}{times}"


def _key_text(key: Key, names: Sequence[str]) -> str:
    words = zip(_place_head(names), _place(key, names), strict=True)
    return ", ".join(f"{what} {value}" for what, value in words)


def _place_head(names: Sequence[str]) -> list[str]:
    return [*_PLACE, "side"] if len(names) > 1 else [*_PLACE]


def _place(key: Key, names: Sequence[str]) -> list[str]:
    words = [key.model, key.shape, str(key.concurrency), str(key.k)]
    return [*words, names[key.side]] if len(names) > 1 else words


def _speed(row: Row) -> str:
    mean, spread = row.mean(THROUGHPUT), row.spread(THROUGHPUT)
    if mean is None:
        return _NONE
    return f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"


def _latency(row: Row, name: str) -> str:
    means = [row.mean(f"{name} {which}") for which in FIGURES]
    return " / ".join(f"{mean:.2f}" for mean in means if mean is not None) or _NONE


def _judgement(ratio: Ratio | None) -> str:
    return _NONE if ratio is None else f"{ratio}, {ratio.verdict}"


def _cell(text: str) -> str:
    """As text; the brackets of an interval are no link's, and stay as they are."""
    return text.replace("<", "&lt;").replace("`", "\\`").replace("|", r"\|").replace("![", "!\\[")


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table with aligned columns, for those who read it as plain text."""
    rows = [[_cell(cell) for cell in row] for row in (head, *body)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"| {' | '.join(padded)} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
