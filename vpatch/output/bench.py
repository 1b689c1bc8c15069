"""The results of `bench` and `bench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vpatch.output.base import OutputModel


class BenchOutput(OutputModel):
    """The result of `vpatch bench`."""

    folder: Path
    """The folder of the record."""
    record: dict[str, Any]
    """What bench.json has."""


class BenchCompareOutput(OutputModel):
    """The result of `vpatch bench compare`."""

    differences: list[str]
    """In what the records differ that should be equal."""
    record: dict[str, Any] | None
    """All records in one, with the sides of each; null if they were not compared."""
    page: Path | None
    """The page that was written."""
