"""The result of `diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from vpatch.console.document import OutputModel, read_from
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.logs.explanations import Explanation


class LookedForOutput(OutputModel):
    """How much was looked for."""

    patches: int
    symptoms: int


class SymptomOutput(OutputModel):
    """A declared symptom that the log has."""

    symptom: str
    """As the patch declares it."""
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
    state: State | None
    """What the patch means for the vLLM that wrote the log; null if that is not known."""
    reason: str | None
    """Why it has that state: a sentence for people."""
    says: str
    """What follows: a sentence for people."""
    run: str | None
    """The command to run next."""
    symptoms: list[SymptomOutput] = read_from("sightings")


class ExplainedOutput(OutputModel):
    """A message in the log whose cause is known, and which no patch cures."""

    message: str
    line: int
    meaning: str
    hint: str


def _explanations(lines: Mapping[Explanation, int]) -> list[ExplainedOutput]:
    return [
        ExplainedOutput(message=one.message, line=line, meaning=one.meaning, hint=one.hint)
        for one, line in lines.items()
    ]


class DiagnoseOutput(OutputModel):
    """The result of `vpatch diagnose`."""

    log: str = read_from("log.typed")
    """As the command line names it."""
    lines: int = read_from("log.lines")
    versions: list[str] = read_from("log.versions")
    """The versions of vLLM that the log names."""
    note: str | None
    """Why a state is not known: a sentence for people."""
    looked_for: LookedForOutput
    found: list[FoundPatchOutput] = read_from("verdicts")
    explained: Annotated[list[ExplainedOutput], BeforeValidator(_explanations)] = read_from(
        "log.explained"
    )
