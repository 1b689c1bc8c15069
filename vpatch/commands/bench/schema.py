"""The record of a benchmark: what is written, and what a record of anybody's must have to be read.

Keys are in snake_case. The plan is the recipe's, and keeps the keys of the recipe. Version 1 of a
record had hyphens in its keys, and said its version as `record-version`; it is still read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    field_validator,
    model_validator,
)

from vpatch.declare.bench import Shape
from vpatch.evidence.records import RunEngine, RunImage, either_key
from vpatch.harness.measured import Fault
from vpatch.harness.predict import Counters
from vpatch.util.versions import utc_time

SCHEMA_VERSION: Final = 2

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
Milliseconds = Annotated[FiniteFloat, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="allow", alias_generator=AliasGenerator(validation_alias=either_key)
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, content: Any) -> Any:
        """What is not known is left out of a record; null, as `--json` has it, means the same."""
        if not isinstance(content, dict):
            return content
        fields = cls.model_fields.items()
        optional = {one.alias or name for name, one in fields if not one.is_required()}
        return {key: one for key, one in content.items() if one is not None or key not in optional}


class LatencyRecord(_Part):
    mean: Milliseconds
    p50: Milliseconds
    p95: Milliseconds
    p99: Milliseconds
    quantiles: Annotated[list[Milliseconds], Field(min_length=101, max_length=101)]

    def figure(self, name: str) -> float:
        """Return one of the figures by its name, as `p95`."""
        value: float = getattr(self, name)
        return value


class Latencies(_Part):
    ttft: LatencyRecord
    tpot: LatencyRecord
    itl: LatencyRecord
    e2el: LatencyRecord

    def of(self, name: str) -> LatencyRecord:
        """Return a latency by vLLM's name for it, as `ttft`."""
        latency: LatencyRecord = getattr(self, name)
        return latency


class CountersRecord(_Part):
    model_config = ConfigDict(extra="forbid")

    drafts: Count
    draft_tokens: Count
    accepted: Count
    per_position: list[Count]

    @property
    def counts(self) -> Counters:
        return Counters(self.drafts, self.draft_tokens, self.accepted, tuple(self.per_position))


class MeasuredRecord(_Part):
    seconds: Positive
    requests: Count
    input_tokens: Count
    output_tokens: Count
    output_tokens_per_second: Positive
    latency_ms: Latencies
    counters: CountersRecord
    cached_tokens: Count


class FaultRecord(_Part):
    kind: str
    what: str
    cause: str | None
    ending: list[str]

    def __str__(self) -> str:
        return str(Fault(self.kind, self.what, self.cause))


class PointRecord(_Part):
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
    measured: MeasuredRecord | None
    fault: FaultRecord | None
    node: str | None = None
    """The node of the cluster that it ran on, which is one of `machines`."""

    @model_validator(mode="after")
    def _one_of_both(self) -> PointRecord:
        if (self.measured is None) == (self.fault is None):
            raise ValueError("a point is either measured or has a fault")
        return self


class GpuRecord(_Part):
    name: str
    capability: str
    memory: FiniteFloat
    driver: str


class MachineRecord(_Part):
    system: str
    processor: str
    cores: int
    memory: FiniteFloat
    gpus: list[GpuRecord]
    problem: str | None


class NodeRecord(_Part):
    """A node of a cluster, and the variables there that may change what an engine does."""

    machine: MachineRecord
    inherited: dict[str, str]


class PinRecord(_Part):
    tree: str
    version: str | None
    ref: str | None
    digest: str


class PatchRecord(_Part):
    id: str


class File(_Part):
    path: str


class TreeRecord(_Part):
    pin: PinRecord
    patches: list[PatchRecord]
    files: list[File]


class Server(_Part):
    url: str
    model: str
    root: str | None
    vllm: str | None
    k: Count


class Side(_Part):
    name: str
    what: str
    machine: MachineRecord
    inherited: dict[str, str]
    digest: str | None
    subject: list[TreeRecord] | None = None
    engine: RunEngine | None = None
    image: RunImage | None = None
    servers: list[Server] | None = None
    nodes: list[str] | None = None
    """The nodes of a cluster that measured it; `machine` is the first one."""
    point: dict[Literal["vllm", "patches", "hardware"], str] | None = None
    """Its names in the matrix of the recipe."""


class ModelRecord(_Part):
    model: str
    digest: str | None


class CellsRecord(_Part):
    model: str
    k: list[Count]


class PlanRecord(_Part):
    """The plan, with the keys of the recipe. What is not known of running servers is left out."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"), serialize_by_alias=True
    )

    shapes: list[Shape]
    concurrency: list[int]
    prompts: int
    repeats: int
    warm_up: bool
    sampling: dict[str, Any]
    cells: list[CellsRecord]
    share_server: bool | None = None
    method: str | None = None
    tensor_parallel: int | None = None
    flags: dict[str, Any] | None = None
    environment: dict[str, str] | None = None


class ClientRecord(_Part):
    vllm: str


class BenchRecord(_Part):
    """All that a benchmark was, and all that came of it."""

    schema_version: Literal[2]
    vpatch: str
    name: str
    made: str
    asked: dict[str, Any]
    client: ClientRecord
    models: dict[str, ModelRecord]
    datasets: dict[str, str]
    plan: PlanRecord
    planned: Count
    sides: Annotated[list[Side], Field(min_length=1)]
    points: Annotated[list[PointRecord], Field(min_length=1)]
    machines: dict[str, NodeRecord] | None = None
    """The nodes of a cluster, by their names."""

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("record-version") == 1:
            content = {key: value for key, value in content.items() if key != "record-version"}
            return {"schema_version": SCHEMA_VERSION} | content
        return content

    @property
    def notes(self) -> list[str]:
        """What must be known of several records that were joined to this one."""
        return list((self.model_extra or {}).get("notes", ()))

    @field_validator("made")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        utc_time(value)
        if datetime.fromisoformat(value).tzinfo is None:
            raise ValueError("a time without its zone")
        return value

    @model_validator(mode="after")
    def _points_are_of_its_sides(self) -> BenchRecord:
        if max(point.side for point in self.points) >= len(self.sides):
            raise ValueError("a point is of a side that it does not have")
        return self
