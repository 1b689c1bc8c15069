"""The jobs of one question: which patches are decided on for which trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.source.spec import PypiSpec
from vpatch.util.plural import counted
from vpatch.workspace.plans import known_plan, planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.planning.state import FindingsFor, Plan
    from vpatch.progress import Task
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


@dataclass(frozen=True)
class Jobs:
    """The jobs of one question, by their numbers."""

    context: Context
    jobs: Sequence[Selection]
    findings_for: FindingsFor
    each_alone: bool = False

    def alone(self, number: int) -> frozenset[str]:
        job = self.jobs[number]
        return frozenset(patch.id for patch in job.patches) if self.each_alone else job.alone

    def pin(self, number: int) -> Pin | None:
        job = self.jobs[number]
        return self.context.cached_pin(job.spec, job.expected_digest)

    def kept(self, number: int) -> Plan | None:
        """The plan of a release that an earlier run has kept, or that is recorded.

        Its tree stays closed, and need not be fetched.
        """
        job = self.jobs[number]
        pin = self.context.listed_pin(job.spec, job.expected_digest)
        if pin is None:
            return None
        alone = self.alone(number)
        return known_plan(
            self.context, job.patches, pin, findings_for=self.findings_for, alone=alone
        )

    def begin(self, numbers: Sequence[int]) -> Task:
        """Begin the progress of deciding some of the jobs."""
        patches = max(len(self.jobs[number].patches) for number in numbers)
        of_index = all(isinstance(self.jobs[number].spec, PypiSpec) for number in numbers)
        return self.context.progress.start(
            f"Deciding {counted(patches, 'patch')}",
            total=len(numbers),
            unit="release" if of_index else "tree",
        )

    def decide(self, number: int) -> Plan:
        job = self.jobs[number]
        with self.context.tree(job.spec, job.expected_digest) as tree:
            return planned(
                self.context,
                job.patches,
                tree,
                to_write=False,
                findings_for=self.findings_for,
                alone=self.alone(number),
            )
