"""What a record must have to be read: it may be anybody's, and is not trusted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

from vpatch.declare.bench import Shape

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
Milliseconds = Annotated[FiniteFloat, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="allow",
        alias_generator=lambda name: name.replace("_", "-"),
        serialize_by_alias=True,
    )


class Latency(_Part):
    mean: Milliseconds
    p50: Milliseconds
    p95: Milliseconds
    p99: Milliseconds
    quantiles: Annotated[list[Milliseconds], Field(min_length=101, max_length=101)]


class Latencies(_Part):
    ttft: Latency
    tpot: Latency
    itl: Latency
    e2el: Latency


class Counters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    drafts: Count
    draft_tokens: Count
    accepted: Count
    per_position: list[Count]


class Measured(_Part):
    seconds: Positive
    requests: Count
    input_tokens: Count
    output_tokens: Count
    output_tokens_per_second: Positive
    latency_ms: Latencies
    counters: Counters
    cached_tokens: Count


class Fault(_Part):
    kind: str
    what: str
    cause: str | None
    ending: list[str]


class Point(BaseModel):
    model_config = ConfigDict(extra="allow")

    side: Count
    model: str
    k: Count
    shape: str
    concurrency: Annotated[int, Field(ge=1)]
    repeat: Count
    prompts: Count
    seed: Count
    log: str | None
    raw: str | None
    measured: Measured | None
    fault: Fault | None

    @model_validator(mode="after")
    def _one_of_both(self) -> Point:
        if (self.measured is None) == (self.fault is None):
            raise ValueError("a point is either measured or has a fault")
        return self


class Gpu(_Part):
    name: str
    capability: str
    memory: FiniteFloat
    driver: str


class Machine(_Part):
    system: str
    processor: str
    cores: int
    memory: FiniteFloat
    gpus: list[Gpu]
    problem: str | None


class Pin(_Part):
    tree: str
    version: str | None
    ref: str | None
    digest: str


class Patch(_Part):
    id: str


class File(_Part):
    path: str


class Tree(_Part):
    pin: Pin
    patches: list[Patch]
    files: list[File]


class Engine(_Part):
    kind: str
    vllm: str


class Image(_Part):
    name: str
    id: str


class Server(_Part):
    url: str
    model: str
    root: str | None
    vllm: str | None
    k: Count


class Side(_Part):
    name: str
    what: str
    machine: Machine
    inherited: dict[str, str]
    digest: str | None
    subject: list[Tree] | None = None
    engine: Engine | None = None
    image: Image | None = None
    servers: list[Server] | None = None

    @model_validator(mode="before")
    @classmethod
    def _says_nothing_or_something(cls, found: Any) -> Any:
        """What is not known of a side is left out, and not null."""
        if isinstance(found, dict):
            for key in ("subject", "engine", "image", "servers"):
                if key in found and found[key] is None:
                    raise ValueError(f"{key} is null")
        return found


class Model(_Part):
    model: str
    digest: str | None


class Cells(_Part):
    model: str
    k: list[Count]


class Plan(_Part):
    shapes: list[Shape]
    concurrency: list[int]
    prompts: int
    repeats: int
    warm_up: bool
    sampling: dict[str, Any]
    cells: list[Cells]
    share_server: bool | None = None
    method: str | None = None
    tensor_parallel: int | None = None
    flags: dict[str, Any] | None = None
    environment: dict[str, str] | None = None


class Client(_Part):
    vllm: str


class Record(_Part):
    record_version: Literal[1]
    vpatch: str
    name: str
    made: str
    asked: dict[str, Any]
    client: Client
    models: dict[str, Model]
    datasets: dict[str, str]
    plan: Plan
    planned: Count
    sides: Annotated[list[Side], Field(min_length=1)]
    points: Annotated[list[Point], Field(min_length=1)]

    @field_validator("made")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        if datetime.fromisoformat(value).tzinfo is None:
            raise ValueError("a time without its zone")
        return value

    @model_validator(mode="after")
    def _points_are_of_its_sides(self) -> Record:
        if max(point.side for point in self.points) >= len(self.sides):
            raise ValueError("a point is of a side that it does not have")
        return self
