"""The records of smoke runs and of behaviour tests, as `results.json` has them.

Keys are in snake_case. A plan, a proof and what was asked for keep the keys of their files and
options. Version 1 of a record had hyphens in its keys, and said its version as `record-version`;
`upgraded` is the one place that knows this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    WithJsonSchema,
)

SCHEMA_VERSION = 2
# As it was written: a report that is made again must show the same digits.
Number = int | float
CheckVerdict = Literal["pass", "fail", "not run"]
RunResult = Literal["passed", "failed"]
Phases = Literal["before", "after"]
# Of another's making. Schemas say no more of it than that it is an object.
JsonObject = Annotated[
    dict[str, JsonValue], WithJsonSchema({"type": "object", "additionalProperties": True})
]
# What the command line says of an option.
OptionValue = str | int | bool | Sequence[str] | None


def either_key(name: str) -> str | AliasChoices:
    """Return the key as it is, or as version 1 wrote it."""
    return AliasChoices(name, name.replace("_", "-")) if "_" in name else name


class EvidencePart(BaseModel):
    """A part of a record. Keys that a later version added are kept."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        alias_generator=AliasGenerator(validation_alias=either_key),
        use_attribute_docstrings=True,
    )


class SubjectPin(EvidencePart):
    """A pinned tree, as in vpatch.lock."""

    tree: str
    kind: str | None = None
    """`pypi`, `folder` or `git`."""
    version: str | None
    digest: str
    origin: str | None = None
    """The name of the archive, a URL or a path. The `digest` of the record leaves it out."""
    ref: str | None = None


class SubjectPatch(EvidencePart):
    id: str
    digest: str
    variant: str | None = None


class SubjectFile(EvidencePart):
    """A touched file: its digest without the patches, null if they create it, and with them."""

    path: str
    before: str | None
    after: str


class SubjectTree(EvidencePart):
    pin: SubjectPin
    patches: list[SubjectPatch]
    files: list[SubjectFile]


class RunEngine(EvidencePart):
    kind: str
    """`cpu` or `cuda`."""
    vllm: str
    """The version of vLLM."""


class RunGpu(EvidencePart):
    name: str
    capability: str | None = None
    memory: Number | None = None
    """In GiB."""
    driver: str | None = None


class RunMachine(EvidencePart):
    processor: str
    cores: int
    memory: Number
    """In GiB."""
    gpus: list[RunGpu]
    system: str | None = None
    problem: str | None = None
    """Why nothing is known of the GPUs."""


class RunImage(EvidencePart):
    name: str
    id: str


class RunModel(EvidencePart):
    model: str
    """The checkpoint, in words."""
    digest: str


class CheckRecord(EvidencePart):
    name: str
    verdict: CheckVerdict
    figure: str
    """What was seen, in short."""
    reason: str
    """Why it fails, or was not run."""
    claimed: bool = False
    """Whether the plan claims that it passes."""


class RoundCounters(EvidencePart):
    """vLLM's counters of speculative decoding."""

    drafts: int
    draft_tokens: int
    accepted: int
    per_position: list[int]
    rate: Number | None = None
    length: Number | None = None


class RoundFault(EvidencePart):
    """Why a round did not come to its end."""

    kind: str
    what: str
    cause: str | None
    ending: list[str]
    """The last lines of the log."""


class LostAttempt(EvidencePart):
    """An attempt at a cell that came to nothing. `node` is null if it did not begin."""

    node: str | None
    why: str


class ClusterMachine(EvidencePart):
    """A node of a cluster, and the variables there that may change what an engine does."""

    machine: RunMachine
    inherited: dict[str, str]


class CellRound(EvidencePart):
    """A run of a cell. Without `skipped`, it was measured."""

    log: str
    node: str | None = None
    """The node of the cluster that it ran on, which is one of `machines`."""
    lost: list[LostAttempt] | None = None
    """Earlier attempts on the cluster."""
    skipped: str | None = None
    """Why it did not run."""
    load_seconds: Number | None = None
    memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    tokens_per_second: Number | None = None
    speculative: JsonObject | None = None
    counters: RoundCounters | None = None
    passes: JsonObject | None = None
    """The requests and their outputs, by name."""
    server: JsonObject | None = None
    fault: RoundFault | None = None


class CellRecord(EvidencePart):
    """A cell of the plan, in one phase."""

    phase: Phases
    cell: str
    """Its name."""
    point: str | None = None
    """The point of the matrix, which is one of `points`."""
    verdict: CheckVerdict
    checks: list[CheckRecord]
    k: int
    model: str
    mode: str
    tensor_parallel: int | None = None
    flags: JsonObject | None = None
    environment: dict[str, str] | None = None
    sampling: JsonObject | None = None
    max_tokens: int | None = None
    long_tokens: int | None = None
    prompts: list[Any] | None = None
    rounds: list[CellRound] | None = None


class SymptomRecord(EvidencePart):
    """A known symptom in the log of a cell."""

    phase: Phases
    cell: str
    patch: str
    taken: bool
    symptom: str
    log: str | None = None
    line: int | None = None


class MatrixPointRecord(EvidencePart):
    """A point of a matrix. Its own evidence is in `points/` below the folder, by its name."""

    name: str
    folder: str
    digest: str
    """The digest of what was run there."""
    engine: RunEngine
    result: RunResult
    vllm: str | None = None
    patches: str | None = None
    """The name of the set of patches."""
    hardware: str | None = None


class _EvidenceRecord(EvidencePart):
    schema_version: Literal[2]
    vpatch: str
    """The version of vpatch."""
    name: str
    made: str
    """When it was made, in ISO 8601."""
    digest: str
    """The digest of `subject`."""
    asked: dict[str, Any]
    """What the command line said, by the names of the options."""
    subject: list[SubjectTree]
    engine: RunEngine
    machine: RunMachine
    result: RunResult


class SmokeRecord(_EvidenceRecord):
    """The record of a smoke run."""

    kind: Literal["smoke"]
    models: dict[str, RunModel]
    plan: JsonObject
    """The smoke plan, with the keys of the recipe."""
    imports: dict[Phases, list[CheckRecord]]
    cells: list[CellRecord]
    symptoms: list[SymptomRecord]
    inherited: dict[str, str] | None = None
    """Variables of the environment that may change what an engine does."""
    image: RunImage | None = None
    machines: dict[str, ClusterMachine] | None = None
    """The nodes of a cluster, by their names."""
    points: list[MatrixPointRecord] | None = None
    """The points of the recipe's matrix. `subject` then has the trees of all of them."""


class TestFile(EvidencePart):
    file: str
    digest: str


class TestOutcome(EvidencePart):
    name: str
    outcome: Literal["passed", "failed", "skipped"]
    message: str
    seconds: Number | None = None


class TestRuns(EvidencePart):
    pristine: list[TestOutcome]
    patched: list[TestOutcome]


class BehaviourTestRecord(_EvidenceRecord):
    """The record of a behaviour test."""

    kind: Literal["test"]
    patch: str
    test: TestFile
    proof: JsonObject
    """What patch.yaml declares of the test, with its keys."""
    runs: TestRuns
    problems: list[str]


EvidenceRecord = Annotated[SmokeRecord | BehaviourTestRecord, Field(discriminator="kind")]
_RECORD: TypeAdapter[SmokeRecord | BehaviourTestRecord] = TypeAdapter(EvidenceRecord)


def upgraded(document: Mapping[str, JsonValue]) -> EvidenceRecord:
    """Return the record that a document is; one of an older version as this version writes it.

    Raises:
        ValidationError: it is not whole.
    """
    if document.get("record-version") == 1:
        rest = {key: value for key, value in document.items() if key != "record-version"}
        document = {"schema_version": SCHEMA_VERSION, "kind": "smoke", **rest}
    return _RECORD.validate_python(document)


def is_known(document: Any) -> bool:
    """Whether this is a record, of a version that can be read."""
    return isinstance(document, dict) and (
        document.get("schema_version") == SCHEMA_VERSION or document.get("record-version") == 1
    )
