"""The result of `diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from vpatch.console.document import OutputModel, read_from
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.diagnose.diagnosis import DiagnosedLog, SymptomVerdict
    from vpatch.library.patch import Patch


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


class DiagnoseOutput(OutputModel):
    """The result of `vpatch diagnose`."""

    log: str
    """As the command line names it."""
    lines: int
    versions: list[str]
    """The versions of vLLM that the log names."""
    note: str | None
    """Why a state is not known: a sentence for people."""
    looked_for: LookedForOutput
    found: list[FoundPatchOutput]
    explained: list[ExplainedOutput]

    @classmethod
    def of(
        cls,
        log: str,
        reading: DiagnosedLog,
        known: Sequence[Patch],
        verdicts: Sequence[SymptomVerdict],
        note: str | None,
    ) -> Self:
        symptoms = sum(len(patch.declaration.symptoms) for patch in known)
        return cls(
            log=log,
            lines=reading.lines,
            versions=reading.versions,
            note=note,
            looked_for=LookedForOutput(patches=len(known), symptoms=symptoms),
            found=verdicts,
            explained=[
                ExplainedOutput(message=e.message, line=line, meaning=e.meaning, hint=e.hint)
                for e, line in reading.explained.items()
            ],
        )
