"""What was seen of a cell: facts alone, which `checks` judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vpatch.harness.predict import Counters

_PREFIX = "vllm:spec_decode_num_"
PREEMPTIONS = "vllm:num_preemptions"
CACHED = "vllm:prefix_cache_hits"


@dataclass(frozen=True)
class Fault:
    """Why a cell did not come to its end.

    `kind` is one of: does not start, hangs, takes too long, crashed, wrong answer, lost its log,
    tampered with.
    `cause` is what the log says of it, where that is a known thing, and `ending` its last lines.
    `category` names the class where a fault travels as JSON.
    """

    kind: str
    what: str
    cause: str | None = None
    ending: tuple[str, ...] = ()
    category: Literal["fault"] = "fault"

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}" + (f" ({self.cause})" if self.cause else "")

    @property
    def hangs(self) -> bool:
        """Whether it took all the time that it had. On another machine it may succeed."""
        return self.kind in {"hangs", "takes too long"}


@dataclass(frozen=True)
class StartHangs(Fault):
    """A start that took all the time that it had, and would again."""

    category: Literal["start hangs"] = "start hangs"  # type: ignore[assignment]

    @property
    def hangs(self) -> bool:
        return True


@dataclass(frozen=True)
class Output:
    """What came of one request. `tokens` is None where a server does not tell them.

    `count` is how many the engine says that it made, and `pieces` those of a streamed text.
    """

    text: str
    tokens: tuple[int, ...] | None
    count: int
    pieces: int | None = None


@dataclass(frozen=True)
class Pass:
    """Some requests; `asked` has the number of the prompt of each, and `outputs` what came of it.

    `seconds` are from the first of them to the end of the last. `preemptions` counts how often a
    request had to wait and begin again, and `cached_tokens` those of prompts that came from the
    prefix cache.
    """

    asked: tuple[int, ...]
    seconds: float
    outputs: tuple[Output, ...]
    counters: Counters
    preemptions: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Served:
    """What a server answered, besides texts.

    `problems` has what is wrong, in words, by the check that it is for, and an empty list where
    nothing is; `not_run` the reason of a check that could not be made. `generated` is vLLM's own
    count of tokens, and `answered` the sum of what the answers say.
    """

    problems: Mapping[str, tuple[str, ...]]
    not_run: Mapping[str, str]
    generated: int
    answered: int
    stop_seconds: float | None = None
    stop_code: int | None = None


@dataclass(frozen=True)
class Measured:
    """A run of a cell, as far as it came.

    `speculative` is what the engine says that it does, offline; `digests` are of the patched files,
    as the engine's process found them. `memory` is in bytes, at its peak, of all its processes, and
    `gpu_memory` what was in use on all GPUs, where there are any. `left_behind` counts processes
    that outlived it. `server` has what only a server has.
    """

    load_seconds: float | None = None
    version: str | None = None
    speculative: Mapping[str, str | int | None] | None = None
    digests: Mapping[str, str | None] = field(default_factory=dict)
    passes: Mapping[str, Pass] = field(default_factory=dict)
    memory: int = 0
    gpu_memory: int | None = None
    left_behind: int = 0
    fault: Fault | StartHangs | None = None
    server: Served | None = None


def counters_from(values: Mapping[str, float | Sequence[float]]) -> Counters:
    """Return vLLM's counters by their names; those that are not there are zero."""

    def of(name: str) -> tuple[int, ...]:
        value = values.get(_PREFIX + name, ())
        return tuple(map(int, value if isinstance(value, Sequence) else (value,)))

    drafts, tokens, accepted = map(sum, map(of, ("drafts", "draft_tokens", "accepted_tokens")))
    return Counters(drafts, tokens, accepted, of("accepted_tokens_per_pos"))
