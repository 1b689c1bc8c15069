"""Plans for several trees: those that are kept are read, and the rest is decided on all cores."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from vpatch.app import selection
from vpatch.app.planned import planned
from vpatch.planning.plan_cache import kept_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.app.context import Context
    from vpatch.app.selection import Selection
    from vpatch.planning.plan import FindingsFor
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Pin


def plans_for(
    context: Context,
    jobs: Sequence[Selection],
    chosen: Sequence[str],
    *,
    findings_for: FindingsFor,
    each_alone: bool = False,
) -> list[Plan]:
    """Return a plan for each job, without the changes that it makes.

    Args:
        context: what all use cases share.
        jobs: which patches for which trees.
        chosen: the patches that the user asked for by name.
        findings_for: which decisions have findings; see `vpatch.planning.plan.plan`.
        each_alone: decide on each patch as if there were only it and what it requires.

    Raises:
        VpatchError: a source cannot be read.
    """
    asked = Jobs(context, jobs, chosen, findings_for, each_alone=each_alone)
    found = {n: plan for n in range(len(jobs)) if (plan := asked.kept(n)) is not None}
    missing = [number for number in range(len(jobs)) if number not in found]
    workers = min(_cores(), len(missing))
    # Other systems' processes start anew, and would run whoever's script called us once more.
    if workers > 1 and sys.platform == "linux":
        # What is kept needs no processes, and no module that makes some.
        from vpatch.app.workers import decided_by_workers  # noqa: PLC0415

        found |= decided_by_workers(asked, missing, workers)
    for number in missing:
        if number not in found:
            found[number] = asked.decided(number)
    return [found[number] for number in range(len(jobs))]


class Jobs:
    """The jobs of one question, by their numbers."""

    def __init__(
        self,
        context: Context,
        jobs: Sequence[Selection],
        chosen: Sequence[str],
        findings_for: FindingsFor,
        *,
        each_alone: bool = False,
    ) -> None:
        self.context = context
        self.jobs = jobs
        self.chosen = chosen
        self.findings_for = findings_for
        self.each_alone = each_alone

    def alone(self, number: int) -> frozenset[str]:
        job = self.jobs[number]
        if self.each_alone:
            return frozenset(patch.id for patch in job.patches)
        return selection.decided_alone(job, self.chosen)

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

    def decided(self, number: int) -> Plan:
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


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
