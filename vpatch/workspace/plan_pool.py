"""Plans for several trees: those that are kept are read, and the rest is decided on all cores."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from vpatch.progress import Silent
from vpatch.workspace.plan_jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.planning.state import FindingsFor, Plan
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
    # Other systems' processes start anew, and would run whoever's script called us once more.
    if sys.platform == "linux":
        workers = min(len(os.sched_getaffinity(0)), len(missing))
    else:
        workers = 1
    if workers > 1:
        # What is kept needs no processes, and no module that makes some.
        from vpatch.workspace.plan_workers import decided_by_workers  # noqa: PLC0415

        plans |= decided_by_workers(asked, missing, workers)
    rest = [number for number in missing if number not in plans]
    # One tree tells of itself.
    task = asked.begin(rest) if len(rest) > 1 else Silent()
    for number in rest:
        plans[number] = asked.decide(number)
        task.advance(1)
    task.done()
    return [plans[number] for number in range(len(jobs))]
