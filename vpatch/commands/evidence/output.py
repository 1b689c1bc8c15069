"""The results of `evidence list`, `evidence show` and `evidence verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from vpatch.console.document import OutputModel
from vpatch.evidence.records import EvidenceRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.commands.evidence.usecase import VerifiedEvidence
    from vpatch.evidence.store import Evidence


class EvidenceOutput(OutputModel):
    """Some evidence, and whether it is for what its command would run now."""

    name: str
    made: str
    """When it was made, in ISO 8601."""
    result: str
    """`passed` or `failed`."""
    digest: str
    """The digest of what was run."""
    changed: list[str]
    """The files that somebody changed since."""
    differs: list[str]
    """What would be different now: sentences for people."""
    unknown: str | None
    """Why it is not known what would be different; null if it is known. A sentence for people."""

    @classmethod
    def of(cls, found: VerifiedEvidence) -> Self:
        record = found.evidence.record
        return cls(
            name=found.evidence.name,
            made=record.made,
            result=record.result,
            digest=record.digest,
            changed=found.changed,
            differs=found.differs,
            unknown=found.unknown.what if found.unknown else None,
        )


class EvidenceListOutput(OutputModel):
    """The result of `vpatch evidence list`.

    Damaged evidence is under `errors`, and so is why something is not known.
    """

    evidence: list[EvidenceOutput]

    @classmethod
    def of(cls, found: Iterable[VerifiedEvidence]) -> Self:
        return cls(evidence=[EvidenceOutput.of(one) for one in found])


class EvidenceShowOutput(OutputModel):
    """The result of `vpatch evidence show`."""

    folder: Path
    """The folder of the evidence."""
    record: EvidenceRecord
    """What results.json has, in the form of the newest version."""

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        return cls(folder=evidence.folder, record=evidence.record)
