"""The result of `diagnose`."""

from __future__ import annotations

from vpatch.commands.diagnose.diagnosis import Certainty
from vpatch.console.document import OutputModel, Sorted, read_from
from vpatch.planning.state import State


class LookedForOutput(OutputModel):
    """How much was looked for."""

    patches: int
    symptoms: int
    """Symptoms of these patches that a log can have."""
    known_issues: int


class LogOutput(OutputModel):
    """A log that was read."""

    log: str = read_from("name")
    lines: int


class SymptomOutput(OutputModel):
    """A declared symptom that the log has."""

    symptom: str
    """As the patch declares it."""
    log: str
    line: int
    """The first line of the log that has it, from 1."""
    text: str
    """That line."""
    count: int
    """How often it occurs."""


class FoundPatchOutput(OutputModel):
    """A patch that cures a symptom in the log."""

    patch: str = read_from("patch.id")
    title: str = read_from("patch.declaration.title")
    on_request: str | None = read_from("patch.declaration.on_request")
    """Why only a recipe or `--patch` takes this patch."""
    certainty: Certainty
    """How sure it is that what the patch cures is the cause."""
    state: State | None
    """What the patch means for the vLLM that wrote the log; null if that is not known."""
    reason: str | None
    """Why it has that state: a sentence for people."""
    says: str
    """What follows: a sentence for people."""
    run: str | None
    """The command to run next."""
    symptoms: list[SymptomOutput] = read_from("sightings")


class KnownIssueOutput(OutputModel):
    """A known issue whose message the log has."""

    issue: str = read_from("issue.id")
    title: str = read_from("issue.title")
    certainty: Certainty
    """How sure it is that this is the cause."""
    log: str = read_from("sighting.log")
    line: int = read_from("sighting.line")
    """The first line of the log that has it, from 1."""
    text: str = read_from("sighting.text")
    """That line."""
    count: int = read_from("sighting.count")
    """How often it occurs."""
    says: str
    """What it means for this vLLM: a sentence for people."""
    do: str = read_from("issue.do")
    """What to do: a sentence for people."""
    run: str | None
    """The command to run next."""
    threads: list[str] = read_from("issue.thread")
    """Where people reported it: `OWNER/REPOSITORY#NUMBER`."""
    fixes: list[str] = read_from("issue.fix")
    """The pull requests that fix it."""


class ExplainedOutput(OutputModel):
    """A message in the log whose cause is known, and which no patch cures."""

    message: str = read_from("explanation.message")
    log: str
    line: int
    meaning: str = read_from("explanation.meaning")
    hint: str = read_from("explanation.hint")


class ObservationOutput(OutputModel):
    """What metrics or repeated messages show. The log alone does not tell the cause."""

    kind: str
    """`acceptance`, `counter` or `waiting`."""
    log: str
    line: int
    """The first line that shows it."""
    count: int
    what: str
    next: str


class LoggedErrorOutput(OutputModel):
    """An exception in the log that does not merely follow from another one."""

    log: str
    line: int
    kind: str
    """The name of its class."""
    message: str
    frames: list[str]
    """`FILE:LINE FUNCTION`, the innermost last."""
    process: str
    """As vLLM names it; empty if it does not."""


class FactsOutput(OutputModel):
    """What the logs say of the vLLM that wrote them. What they do not say is null."""

    versions: list[str]
    platform: str | None
    model: str | None
    architectures: list[str]
    speculates: bool | None
    """Whether it speculates."""
    speculation: str | None
    """Its speculative configuration, as it prints it."""
    draft: str | None
    """The model of the draft."""
    quantization: str | None
    cuda: Sorted
    """The CUDA versions that the log names packages or libraries of."""
    first_error: LoggedErrorOutput | None
    last_error: LoggedErrorOutput | None


class DiagnoseOutput(OutputModel):
    """The result of `vpatch diagnose`."""

    log: str
    """The first log, as the command line names it."""
    logs: list[LogOutput]
    """All logs."""
    lines: int
    """Of all logs."""
    versions: list[str] = read_from("facts.versions")
    """The versions of vLLM that the logs name."""
    note: str | None
    """Why a state is not known: a sentence for people."""
    looked_for: LookedForOutput
    found: list[FoundPatchOutput] = read_from("verdicts")
    known_issues: list[KnownIssueOutput] = read_from("issues")
    explained: list[ExplainedOutput] = read_from("reading.explained")
    observations: list[ObservationOutput]
    facts: FactsOutput
    next: str | None
    """Where to go on if an error is not known: a command."""
