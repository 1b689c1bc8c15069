"""A lock without a checkout: what `vpatch apply` would write, for what needs no files of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vpatch.checkout.commits import commits_of, lock_of
from vpatch.errors import UsageError
from vpatch.git.object_ids import base_id, blobs_of, ids_on_top
from vpatch.util.record_store import RecordStore
from vpatch.workspace import selection
from vpatch.workspace.checkout import note_unsure, refuse_stopping
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager, ExitStack

    from vpatch.checkout.lockfile import LockFile
    from vpatch.checkout.new_lock import NewLock
    from vpatch.git.object_ids import Blobs
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


@dataclass(frozen=True)
class LockedPlan:
    """A lock, the plan that it is of, and the tree of that plan."""

    lock: LockFile
    plan: Plan
    tree: CachedTree


def locked_plan(
    context: Context,
    request: selection.Request,
    stack: ExitStack,
    open_selected: Callable[[Selection], AbstractContextManager[CachedTree]] | None = None,
) -> LockedPlan:
    """Plan what a request asks for, and return the lock that `vpatch apply` would write.

    Args:
        context: what all use cases share.
        request: what the user asks for.
        stack: keeps the tree open.
        open_selected: opens the tree of a selection; by default as the context does.

    Raises:
        UsageError: the request names nothing that is there, or several trees.
        VpatchError: a source cannot be read, or a patch cannot be applied.
    """
    asked = selection.resolve(request, context.library)
    selection.note_library(context, asked)
    if len(asked) > 1:
        names = ", ".join(job.spec.tree for job in asked)
        raise UsageError(
            f"this needs one tree, but there are several: {names}",
            hint="name a recipe with vLLM alone",
            code="library.several-trees",
        )
    job = asked[0]
    opened = open_selected(job) if open_selected else context.tree(job.spec, job.expected_digest)
    tree = stack.enter_context(opened)
    plan = planned(context, job.patches, tree, to_write=True)
    refuse_stopping([plan], asked_for=job.asked_for, strict=job.strict)
    note_unsure(context, [plan])
    return LockedPlan(lock_of_selection(context, job, tree, plan).model(), plan, tree)


def lock_of_selection(context: Context, job: Selection, tree: CachedTree, plan: Plan) -> NewLock:
    """Return the lock that `vpatch apply` would write for a plan."""
    # The ids of commits are a part of the lock. An image of vLLM has no git.
    blobs = _blobs(context, tree)
    base = base_id(blobs, tree.base_message)
    commits = ids_on_top(blobs, base, commits_of(plan))
    return lock_of(
        plan,
        job.recipe,
        base,
        commits,
        carried=tree.carried,
        chosen=job.chosen,
        security=job.security,
    )


def _blobs(context: Context, tree: CachedTree) -> Blobs:
    """The ids of a tree's files, kept by the digest of its manifest: reading all takes long."""
    store, key = RecordStore(context.plans), f"blobs-{tree.digest[:32]}"
    blobs = store.get(key, _as_blobs)
    if blobs is None:
        blobs = blobs_of(tree.base_files())
        store.put(key, blobs)
    return blobs


def _as_blobs(record: Any) -> Blobs:
    return {str(path): (int(mode), str(blob)) for path, (mode, blob) in record.items()}
