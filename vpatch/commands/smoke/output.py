"""The result of `smoke`."""

from __future__ import annotations

from pathlib import Path

from vpatch.console.document import OutputModel
from vpatch.evidence.records import SmokeRecord


class SmokeOutput(OutputModel):
    """The result of `vpatch smoke`."""

    folder: Path
    """The folder of the evidence."""
    record: SmokeRecord
    """What results.json has."""
