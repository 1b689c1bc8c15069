"""Options of commands that can run on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

ATTEMPTS = 3


@dataclass(frozen=True)
class ClusterOptions:
    """Where the jobs of a command run.

    Attributes:
        on: the address of a cluster; None for this machine.
        attempts: how often a job is tried there, before its loss is a finding.
        resume: whether jobs whose results are kept are not run again.
    """

    on: str | None = None
    attempts: int = ATTEMPTS
    resume: bool = False

    def refuse_conflicts(self, given: Iterable[str]) -> None:
        """Refuse options that have no effect together; `given` are those of an own machine.

        Raises:
            UsageError: there are some.
        """
        if self.on is None:
            said = {"--attempts": self.attempts != ATTEMPTS, "--resume": self.resume}
            idle = [name for name, is_given in said.items() if is_given]
            if idle:
                raise UsageError(
                    f"{' and '.join(idle)} would have no effect without --on",
                    hint="give --on ADDRESS, or leave it out",
                    code="cli.unused-option",
                )
            return
        for name in given:
            raise UsageError(
                f"--{name} and --on exclude each other",
                hint="the jobs of a cluster run an engine: give --engine cpu, cuda or PYTHON",
                code="cli.conflicting-options",
            )
