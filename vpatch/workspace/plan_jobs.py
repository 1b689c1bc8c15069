"""The jobs of one question: which patches are decided on for which trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.planning.plan_cache import kept_plan
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.planning.plan import FindingsFor
    from vpatch.planning.state import Plan
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
        """The plan that an earlier run has kept for a cached release: its tree stays closed."""
        pin = self.pin(number)
        if pin is None:
            return None
        job = self.jobs[number]
        alone = self.alone(number)
        return kept_plan(
            self.context.plans, job.patches, pin, findings_for=self.findings_for, alone=alone
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
