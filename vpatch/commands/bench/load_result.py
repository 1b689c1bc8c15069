"""What was seen of a load: facts alone, in the words of `vllm bench serve`."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from vpatch.harness.predict import Counters  # noqa: TC001 - as above

if TYPE_CHECKING:
    from collections.abc import Sequence

# The latencies, by vLLM's names for them: to the first token, for each further token of an answer,
# between two pieces of it, and of all of it.
LATENCIES = ("ttft", "tpot", "itl", "e2el")
FIGURES = ("mean", "p50", "p95", "p99")
PERCENTS = 101


@dataclass(frozen=True)
class LoadLatency:
    """In milliseconds. `quantiles` are those for 0, 1, ... 100 percent."""

    mean: float
    p50: float
    p95: float
    p99: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class LoadResult:
    """One run of a load. `counters` are the server's, of this load alone.

    `cached_tokens` are those of the prompts that the server had computed before.
    """

    seconds: float
    requests: int
    input_tokens: int
    output_tokens: int
    output_tokens_per_second: float
    latencies: Annotated[Mapping[str, LoadLatency], Field(alias="latency_ms")]
    counters: Counters
    cached_tokens: int


@dataclass(frozen=True)
class LoadAnswers:
    """How many requests were answered, with how many tokens.

    `failures` are the reasons of those that failed, one for each.
    """

    completed: int
    tokens: int
    failures: list[str]


def answers_in(raw: Mapping[str, Any]) -> LoadAnswers:
    """Return what vLLM's own result says of the answers; a figure that is missing is 0."""
    failures = [error.strip() for error in raw.get("errors", ())]
    return LoadAnswers(
        completed=int(raw.get("completed", 0)),
        tokens=int(raw.get("total_output_tokens", 0)),
        failures=[failure.splitlines()[-1] for failure in failures if failure],
    )


def measured_from(raw: Mapping[str, Any], counters: Counters, cached_tokens: int) -> LoadResult:
    """Return what vLLM's own result says; only the quantiles are computed from its details.

    Raises:
        ValueError: a figure is missing, or is not a number.
    """
    try:
        samples = _samples(raw["ttfts"], raw["itls"], raw["output_lens"])
        return LoadResult(
            seconds=float(raw["duration"]),
            requests=int(raw["completed"]),
            input_tokens=int(raw["total_input_tokens"]),
            output_tokens=int(raw["total_output_tokens"]),
            output_tokens_per_second=float(raw["output_throughput"]),
            latencies={
                name: _latency(
                    {figure: float(raw[f"{figure}_{name}_ms"]) for figure in FIGURES}, samples[name]
                )
                for name in LATENCIES
            },
            counters=counters,
            cached_tokens=cached_tokens,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _latency(figures: Mapping[str, float], samples: Sequence[float]) -> LoadLatency:
    # Of nothing, as where each answer came in one piece, vLLM says 0 as well.
    values = sorted(float(sample) * 1000 for sample in samples) or [0.0]
    quantiles = tuple(round(_quantile(values, n / (PERCENTS - 1)), 4) for n in range(PERCENTS))
    return LoadLatency(**figures, quantiles=quantiles)


def _quantile(values: Sequence[float], share: float) -> float:
    """Interpolate between sorted values, as numpy does. A node of a cluster may have no numpy."""
    place = (len(values) - 1) * share
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def _samples(
    first: Sequence[float], pieces: Sequence[Sequence[float]], counts: Sequence[int]
) -> dict[str, list[float]]:
    """What `--save-detailed` has of each request, in seconds.

    `first` are the times to the first token, `pieces` those between the pieces of an answer, and
    `counts` the tokens of the answers.
    """
    rest = [sum(one) for one in pieces]
    return {
        "ttft": list(first),
        "tpot": [s / (n - 1) for s, n in zip(rest, counts, strict=True) if n > 1],
        "itl": [piece for one in pieces for piece in one],
        "e2el": [a + b for a, b in zip(first, rest, strict=True)],
    }
