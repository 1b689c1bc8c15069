"""What each patch means for a version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.app import selection
from vpatch.planning.plan import plan
from vpatch.planning.plan_cache import cached_plan

if TYPE_CHECKING:
    from vpatch.app.context import Context
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree


@dataclass(frozen=True)
class StatusRow:
    """`moved` is a recipe that is asked against another vLLM than its own."""

    plan: Plan
    recipe: str | None
    moved: bool


def plan_for_status(
    context: Context,
    job: selection.Selection,
    tree: CachedTree,
    chosen: tuple[str, ...],
    *,
    located: bool,
) -> Plan:
    alone = selection.decided_alone(job, chosen)
    if located:
        return plan(job.patches, tree, located=True, reparse=False, alone=alone)
    return cached_plan(context.plans, job.patches, tree, to_write=False, alone=alone)
