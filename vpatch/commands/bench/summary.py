"""A record's repeats taken together, and which of their differences are significant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vpatch.commands.bench.welch import welch_interval
from vpatch.harness.predict import Counters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.commands.bench.schema import BenchRecord, MeasuredRecord

Verdict = Literal["better", "worse", "within the noise", "not judged"]
THROUGHPUT = "output_tokens_per_second"
JUDGED = (THROUGHPUT, "ttft mean", "tpot mean", "e2el mean")
# Fewer say nothing of their own spread that is worth hearing.
_LEAST = 3
_WRONG = 0.05


class Key(NamedTuple):
    """A place in the matrix, but for the repeats."""

    side: int
    model: str
    k: int
    shape: str
    concurrency: int


@dataclass(frozen=True)
class Row:
    """All repeats of one place in the matrix: what was measured, and why some were not."""

    key: Key
    runs: tuple[MeasuredRecord, ...]
    faults: tuple[str, ...]

    def values(self, figure: str) -> list[float]:
        """Return a figure of each repeat: `THROUGHPUT`, or one of a latency, as `ttft p95`."""
        if figure == THROUGHPUT:
            return [run.output_tokens_per_second for run in self.runs]
        name, _, which = figure.partition(" ")
        return [run.latency_ms.of(name).figure(which) for run in self.runs]

    def mean(self, figure: str) -> float | None:
        values = self.values(figure)
        return fmean(values) if values else None

    def spread(self, figure: str) -> float | None:
        """Return the standard deviation of a figure over the repeats; None of fewer than two."""
        values = self.values(figure)
        return stdev(values) if len(values) > 1 else None

    def quantiles(self, latency: str) -> list[float]:
        """Return a latency's quantiles in ms, for 0 to 100 percent, each the mean of the runs."""
        of_each = [run.latency_ms.of(latency).quantiles for run in self.runs]
        return [fmean(values) for values in zip(*of_each, strict=True)]

    @property
    def counters(self) -> Counters | None:
        """What all repeats count together; None where nothing was drafted."""
        total = sum((run.counters.counts for run in self.runs), Counters())
        return total if total.drafts else None

    @property
    def cached(self) -> float:
        """The share of the prompts' tokens that the server had computed before."""
        prompts = sum(run.input_tokens for run in self.runs)
        return sum(run.cached_tokens for run in self.runs) / prompts if prompts else 0.0


@dataclass(frozen=True)
class Ratio:
    """How many times as much a figure is: between `low` and `high`, where enough repeats tell.

    `low` and `high` hold with 95 % for all ratios of a table together.
    """

    value: float
    low: float | None
    high: float | None
    verdict: Verdict

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.2f}x"
        # What lies beyond 1 must not look as if it were 1.
        real = self.verdict in {"better", "worse"}
        near = real and "1.00" in {f"{self.low:.2f}", f"{self.high:.2f}"}
        digits = 4 if near else 2
        return f"{self.value:.{digits}f}x [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def rows_of(record: BenchRecord) -> list[Row]:
    """Return the rows of a record, in the order of the plan and not that of the run."""
    by_key: dict[Key, tuple[list[MeasuredRecord], list[str]]] = {}
    for point in record.points:
        key = Key(point.side, point.model, point.k, point.shape, point.concurrency)
        runs, faults = by_key.setdefault(key, ([], []))
        if point.measured is not None:
            runs.append(point.measured)
        else:
            faults.append(str(point.fault))
    shapes = list(dict.fromkeys(key.shape for key in by_key))
    models = list(dict.fromkeys(key.model for key in by_key))

    def place(key: Key) -> tuple[int, ...]:
        model, shape = models.index(key.model), shapes.index(key.shape)
        return model, shape, key.concurrency, key.k, key.side

    return [
        Row(key, tuple(by_key[key][0]), tuple(by_key[key][1])) for key in sorted(by_key, key=place)
    ]


def speed_ups(rows: Sequence[Row]) -> dict[Key, Ratio]:
    """Return, of each row with k > 0, how many times the output tokens/s of k = 0 it has."""
    by_key = {row.key: row for row in rows}
    pairs = {
        row.key: (by_key[row.key._replace(k=0)], row)
        for row in rows
        if row.key.k and row.key._replace(k=0) in by_key
    }
    return _ratios({key: (*pair, THROUGHPUT) for key, pair in pairs.items()})


def between(pairs: Mapping[Key, tuple[Row, Row]]) -> dict[tuple[Key, str], Ratio]:
    """Return how many times the first row's figures the second's are, for the figures judged."""
    return _ratios({(key, f): (*pair, f) for key, pair in pairs.items() for f in JUDGED})


def sides_of(rows: Sequence[Row]) -> dict[Key, tuple[Row, Row]]:
    """Return each row of a further side after that of the first, where both were measured.

    Sides that have one k each, as servers that were there before, are paired whatever it is.
    """
    pairs = {}
    for row in rows:
        mine = [one for one in rows if _but_for_k(one.key) == _but_for_k(row.key)]
        bases = [one for one in rows if _but_for_k(one.key) == _but_for_k(row.key)._replace(side=0)]
        if len(mine) > 1 or len(bases) > 1:
            bases = [base for base in bases if base.key.k == row.key.k]
        if row.key.side and bases and bases[0].runs and row.runs:
            pairs[row.key] = (bases[0], row)
    return pairs


def _but_for_k(key: Key) -> Key:
    return key._replace(k=0)


def _ratios(asked: Mapping[Any, tuple[Row, Row, str]]) -> dict[Any, Ratio]:
    samples = {
        key: (base.values(figure), other.values(figure), figure)
        for key, (base, other, figure) in asked.items()
    }
    # Of nothing there is no ratio, nor of a time that a clock could not tell from none.
    there = {
        key: values
        for key, values in samples.items()
        if values[0] and values[1] and min(*values[0], *values[1]) > 0
    }
    return {key: _ratio(*values, among=len(there)) for key, values in there.items()}


def _ratio(base: Sequence[float], other: Sequence[float], figure: str, *, among: int) -> Ratio:
    """Compare by Welch's t-test of logarithms, as one of several comparisons (Bonferroni)."""
    base_logs, other_logs = ([math.log(value) for value in values] for values in (base, other))
    value = math.exp(fmean(other_logs) - fmean(base_logs))
    if min(len(base), len(other)) < _LEAST:
        return Ratio(value, None, None, "not judged")
    low, high = map(math.exp, welch_interval(base_logs, other_logs, _WRONG / among))
    return Ratio(value, low, high, _verdict(low, high, figure))


def _verdict(low: float, high: float, figure: str) -> Verdict:
    if low <= 1 <= high:
        return "within the noise"
    return "better" if (low > 1) == (figure == THROUGHPUT) else "worse"
