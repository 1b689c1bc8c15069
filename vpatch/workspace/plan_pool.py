"""Plans for several trees: those that are kept are read, and the rest is decided on all cores."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from vpatch.workspace.plan_jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.planning.plan import FindingsFor
    from vpatch.planning.state import Plan
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


def plans_for(
    context: Context,
    jobs: Sequence[Selection],
    *,
    findings_for: FindingsFor,
    each_alone: bool = False,
) -> list[Plan]:
    """Return a plan for each job, without the changes that it makes.

    Args:
        context: what all use cases share.
        jobs: which patches for which trees.
        findings_for: which decisions have findings; see `vpatch.planning.plan.plan`.
        each_alone: decide on each patch as if there were only it and what it requires.

    Raises:
        VpatchError: a source cannot be read.
    """
    asked = Jobs(context, jobs, findings_for, each_alone=each_alone)
    plans = {n: plan for n in range(len(jobs)) if (plan := asked.kept(n)) is not None}
    missing = [number for number in range(len(jobs)) if number not in plans]
    workers = min(_cores(), len(missing))
    # Other systems' processes start anew, and would run whoever's script called us once more.
    if workers > 1 and sys.platform == "linux":
        # What is kept needs no processes, and no module that makes some.
        from vpatch.workspace.plan_workers import decided_by_workers  # noqa: PLC0415

        plans |= decided_by_workers(asked, missing, workers)
    for number in missing:
        if number not in plans:
            plans[number] = asked.decide(number)
    return [plans[number] for number in range(len(jobs))]


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
