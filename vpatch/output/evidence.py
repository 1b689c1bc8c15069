"""The results of `smoke`, `evidence list`, `evidence show` and `evidence verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vpatch.output.base import OutputModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.app.evidence import VerifiedEvidence


class EvidenceOutput(OutputModel):
    """Some evidence, and whether it is for what its command would run now."""

    name: str
    made: str | None
    """When it was made, in ISO 8601."""
    result: str | None
    """`passed` or `failed`."""
    digest: str | None
    """The digest of what was run."""
    changed: list[str]
    """The files that somebody changed since."""
    differs: list[str]
    """What would be different now: sentences for people."""

    @classmethod
    def of(cls, found: VerifiedEvidence) -> Self:
        record = found.evidence.record
        return cls(
            name=found.evidence.name,
            made=record.get("made"),
            result=record.get("result"),
            digest=record.get("digest"),
            changed=found.changed,
            differs=found.differs,
        )


class EvidenceListOutput(OutputModel):
    """The result of `vpatch evidence list`. Damaged evidence is under `errors`."""

    evidence: list[EvidenceOutput]

    @classmethod
    def of(cls, found: Iterable[VerifiedEvidence]) -> Self:
        return cls(evidence=[EvidenceOutput.of(one) for one in found])


class EvidenceRecordOutput(OutputModel):
    """The result of `vpatch evidence show` and `vpatch smoke`."""

    folder: Path
    """The folder of the evidence."""
    record: dict[str, Any]
    """What results.json has: see the reference of the record."""
