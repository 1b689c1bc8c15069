"""The results of `evidence list`, `evidence show` and `evidence verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from vpatch.console.document import OutputModel, read_from
from vpatch.evidence.records import EvidenceRecord


class EvidenceOutput(OutputModel):
    """Some evidence, and whether it is for what its command would run now."""

    name: str = read_from("evidence.name")
    made: str = read_from("evidence.record.made")
    """When it was made, in ISO 8601."""
    result: str = read_from("evidence.record.result")
    """`passed` or `failed`."""
    digest: str = read_from("evidence.record.digest")
    """The digest of what was run."""
    changed: list[str]
    """The files that somebody changed since."""
    differs: list[str]
    """What would be different now: sentences for people."""
    unknown: Annotated[str | None, BeforeValidator(lambda error: error and error.what)]
    """Why it is not known what would be different; null if it is known. A sentence for people."""


class EvidenceListOutput(OutputModel):
    """The result of `vpatch evidence list`.

    Damaged evidence is under `errors`, and so is why something is not known.
    """

    evidence: list[EvidenceOutput]


class EvidenceShowOutput(OutputModel):
    """The result of `vpatch evidence show`."""

    folder: Path
    """The folder of the evidence."""
    record: EvidenceRecord
    """What results.json has, in the form of the newest version."""
