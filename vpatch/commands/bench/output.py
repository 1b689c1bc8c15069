"""The results of `bench` and `bench compare`."""

from __future__ import annotations

from pathlib import Path

from vpatch.commands.bench.schema import BenchRecord
from vpatch.console.document import OutputModel


class BenchOutput(OutputModel):
    """The result of `vpatch bench`."""

    folder: Path
    """The folder of the record."""
    record: BenchRecord
    """What bench.json has."""


class BenchCompareOutput(OutputModel):
    """The result of `vpatch bench compare`."""

    differences: list[str]
    """In what the records differ that should be equal."""
    record: BenchRecord | None
    """All records in one, with the sides of each; null if they were not compared."""
    page: Path | None
    """The page that was written."""
