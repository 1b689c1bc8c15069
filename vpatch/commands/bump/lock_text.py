"""The lock that belongs to a new recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.workspace import selection
from vpatch.workspace.checkout import refuse_stopping
from vpatch.workspace.locked_plan import lock_of_selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from vpatch.workspace.context import Context


def lock_text(context: Context, request: selection.Request, name: str) -> bytes:
    """The lock that an apply of a request would write for a tree."""
    jobs = selection.resolve(request, context.library)
    job = next(job for job in jobs if job.spec.tree == name)
    with context.tree(job.spec, job.expected_digest) as tree:
        plan = planned(context, job.patches, tree, to_write=True)
        # A new shape stops an apply of a strict recipe. The branch is to be read anyway.
        refuse_stopping([plan], asked_for=False, strict=False)
        return lock_of_selection(context, job, tree, plan).dump().encode()
