"""Options of commands that can run on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.urls import redact, split_credentials

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
        storage: where nodes leave large files for this machine, as fsspec names it; None for
            Ray's object store.
    """

    on: str | None = None
    attempts: int = ATTEMPTS
    resume: bool = False
    storage: str | None = None

    def refuse_conflicts(self, given: Iterable[str]) -> None:
        """Refuse options that have no effect together; `given` are those of an own machine.

        Raises:
            UsageError: there are some.
        """
        if self.on is None:
            said = {
                "--attempts": self.attempts != ATTEMPTS,
                "--resume": self.resume,
                "--storage": self.storage is not None,
            }
            idle = [name for name, is_given in said.items() if is_given]
            if idle:
                raise UsageError(
                    f"{' and '.join(idle)} would have no effect without --on",
                    hint="give --on ADDRESS, or leave it out",
                    code="cli.unused-option",
                )
            return
        _, credentials = split_credentials(self.storage or "")
        # A user without a password is a container of Azure.
        if self.storage is not None and credentials is not None and credentials[1]:
            raise UsageError(
                f"{redact(self.storage)} has a password in it, and passwords never travel",
                where="--storage",
                hint="give each node credentials of its own, as fsspec's package for it says",
                code="cluster.bad-storage",
            )
        for name in given:
            raise UsageError(
                f"--{name} and --on exclude each other",
                hint="nodes start engines of their own: give --engine or --image",
                code="cli.conflicting-options",
            )
