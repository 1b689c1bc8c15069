"""A run of a plan, with the trees that it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.smoke.prove import SmokeRequest
    from vpatch.runs.targets import PlannedTrees


@dataclass(frozen=True)
class PointRun:
    """A request to run; of a matrix, it has the name of its point. `workdir` gets the evidence."""

    request: SmokeRequest
    trees: PlannedTrees
    workdir: Path
    name: str = ""
