"""A request becomes patched checkouts: all of them, or none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.apply import Applied, ApplyRequest, apply
from vpatch.planning.state import Decision, none_taken
from vpatch.workspace import selection
from vpatch.workspace.checkout import refuse_one_folder, request_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class ApplyResult:
    """What was planned, and what was applied: nothing where it was refused.

    `asked_for` says that somebody named the patches, or a recipe did. `stopping` are decisions that
    must be settled first: with `strict`, unsure states too. `idle` says that patches were asked
    for, and none is left to apply.
    """

    requests: tuple[ApplyRequest, ...]
    applied: tuple[Applied, ...]
    asked_for: bool
    stopping: tuple[Decision, ...]
    idle: bool
    strict: bool

    @property
    def refused(self) -> bool:
        return bool(self.stopping) or self.idle


def apply_patches(
    context: Context,
    request: selection.Request,
    checkout: Path | None,
    *,
    force: bool,
    on_planned: Callable[[Sequence[ApplyRequest]], None] = lambda _: None,
) -> ApplyResult:
    """Apply patches to pinned trees, a commit each, and write what was done to vpatch.lock.

    `checkout` is the folder to write, by default one in the project. With `force`, a checkout that
    holds changes by its user is overwritten. `on_planned` is called before anything is written.

    Raises:
        UsageError: the request names nothing that is there, or one `checkout` for several trees.
        VpatchError: a source cannot be read, or a checkout cannot be written.
    """
    asked = selection.resolve(request, context.library)
    selection.note_library(context, asked)
    if asked[0].recipe and not request.recipe:
        _note_patches_left(context, asked)
    for patch in {patch.id: patch for job in asked for patch in job.left_out}.values():
        reason = patch.relations.on_request or "it requires one that is"
        context.progress.note(f"{patch.id} is left out, as it is on request: {reason}")
    refuse_one_folder(checkout, asked)
    asked_for, strict = asked[0].asked_for, asked[0].strict
    with ExitStack() as stack:
        requests = tuple(request_for(job, checkout, context, stack) for job in asked)
        plans = [one.plan for one in requests]
        on_planned(requests)
        stopping = tuple(
            d for plan in plans for d in plan.stopping(asked_for=asked_for, strict=strict)
        )
        idle = asked_for and not stopping and none_taken(plans)
        applied = (
            () if stopping or idle else apply(requests, force=force, progress=context.progress)
        )
    return ApplyResult(requests, tuple(applied), asked_for, stopping, idle, strict)


def _note_patches_left(context: Context, asked: list[selection.Selection]) -> None:
    taken = {patch.id for job in asked for patch in job.patches}
    for patch_id in sorted(context.library.own - taken):
        context.progress.note(
            f"the recipe {asked[0].recipe} does not take {patch_id}, one of yours"
        )
