"""A run of a plan: what is asked for, and the trees that it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.cells import Cell
    from vpatch.declare.smoke import Model, Smoke
    from vpatch.evidence.records import OptionValue, SubjectTree
    from vpatch.harness.machine import Machine
    from vpatch.harness.target import Phase
    from vpatch.library.patch import Patch
    from vpatch.runs.targets import PlannedTrees


@dataclass(frozen=True)
class SmokeRequest:
    """A smoke run to make. `subject` is what it is about, in digests; `port` is for servers.

    `patches` are those whose symptoms are looked for in the logs. `digests` is the cache's folder
    that remembers the digests of large files.
    """

    name: str
    asked: Mapping[str, OptionValue]
    subject: Sequence[SubjectTree]
    smoke: Smoke
    models: Mapping[str, Model]
    cells: Sequence[Cell]
    machine: Machine
    patches: Sequence[Patch]
    before: bool
    port: int | None
    digests: Path | None = None

    @property
    def phases(self) -> list[Phase]:
        """The phases that run, in their order."""
        return ["before", "after"] if self.before else ["after"]


@dataclass(frozen=True)
class PointRun:
    """A request to run; of a matrix, it has the name of its point. `workdir` gets the evidence."""

    request: SmokeRequest
    trees: PlannedTrees
    workdir: Path
    name: str = ""
