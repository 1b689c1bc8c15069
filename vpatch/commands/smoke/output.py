"""The result of `smoke`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vpatch.console.document import OutputModel
from vpatch.evidence.records import SmokeRecord

if TYPE_CHECKING:
    from collections.abc import Mapping


class SmokeOutput(OutputModel):
    """The result of `vpatch smoke`."""

    folder: Path
    """The folder of the evidence."""
    record: SmokeRecord
    """What results.json has."""

    @classmethod
    def of(cls, folder: Path, record: Mapping[str, Any]) -> Self:
        return cls.model_validate({"folder": folder, "record": record})
