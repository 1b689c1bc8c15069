"""A lock without a checkout: what `vpatch apply` would write, for what needs no files of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.app import selection
from vpatch.app.checkout import refuse_stopping
from vpatch.app.planned import planned
from vpatch.checkout.commits import commits_of, lock_of
from vpatch.errors import UsageError
from vpatch.git import checkout as git

if TYPE_CHECKING:
    from contextlib import ExitStack

    from vpatch.app.context import Context
    from vpatch.checkout.lockfile import LockFile
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree


@dataclass(frozen=True)
class LockedPlan:
    """A lock, the plan that it is of, and the tree of that plan."""

    lock: LockFile
    plan: Plan
    tree: CachedTree


def locked_plan(context: Context, request: selection.Request, stack: ExitStack) -> LockedPlan:
    """Plan what a request asks for, and return the lock that `vpatch apply` would write.

    `stack` keeps the tree open.

    Raises:
        UsageError: the request names nothing that is there, or several trees.
        VpatchError: a source cannot be read, or a patch cannot be applied.
    """
    asked = selection.resolve(request, context.library)
    if len(asked) > 1:
        names = ", ".join(job.spec.tree for job in asked)
        raise UsageError(
            f"this needs one tree, but there are several: {names}",
            hint="name a recipe with vLLM alone",
            code="library.several-trees",
        )
    job = asked[0]
    tree = stack.enter_context(context.tree(job.spec, job.expected_digest))
    made = planned(context, job.patches, tree, to_write=True)
    refuse_stopping([made], asked_for=bool(job.recipe or request.patches), strict=job.strict)
    repository, base = tree.base_repository(context.progress)
    # The ids of the commits are a part of the lock. To make them takes no files of a checkout.
    with tempfile.TemporaryDirectory(prefix="vpatch-") as name:
        folder = Path(name, "checkout")
        git.create_checkout(folder, repository, base, [])
        commits = git.add_commits(folder, base, commits_of(made))
    lock = lock_of(
        made,
        job.recipe,
        base,
        commits,
        carried=tree.carried,
        chosen=job.chosen,
        security=job.security,
    )
    return LockedPlan(lock.model(), made, tree)
