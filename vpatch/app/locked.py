"""A lock to build from: of a checkout, applied where it is not there yet, or kept elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.app import selection
from vpatch.app.audit import documents_of
from vpatch.app.checkout import order_for, planned_again, refuse_stopping
from vpatch.checkout.apply import apply
from vpatch.checkout.drift import drift
from vpatch.checkout.lockfile import LockedImage, LockFile, read_lock
from vpatch.checkout.transaction import writing
from vpatch.errors import UsageError, VpatchError
from vpatch.image.context import DOCUMENTS, Payload
from vpatch.source.tree import LOCK_FILE
from vpatch.util.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Tree


@dataclass(frozen=True)
class Locked:
    """A lock, where it lies, the plan that it is of, and its checkout if there is one.

    `documents` are for scanners; see `vpatch.image.context.Payload`.
    """

    path: Path
    lock: LockFile
    plan: Plan
    checkout: Path | None
    documents: Mapping[str, str]

    def payload(self, image: LockedImage) -> Payload:
        """Return what an image on such a base is to have."""
        lock = self.lock.model_copy(update={"image": image})
        return Payload(lock, image, self.plan, documents=self.documents)

    def keep(self, lock: LockFile) -> None:
        """Write the lock with its base to its checkout; one that is kept elsewhere stays."""
        if self.checkout is not None and lock != self.lock:
            with writing(self.path):
                # git does not see .git: a kill leaves nothing that looks like a user's change.
                replace_file(self.path, lock.dump(), workdir=self.checkout / ".git")


def from_lock(context: Context, path: Path, stack: ExitStack) -> Locked:
    """A lock that is kept somewhere, whose patches must still make what it says."""
    lock = read_lock(path)
    tree, made = stack.enter_context(planned_again(context, lock))
    differences = list(drift(lock, made))
    if differences:
        lines = "".join(f"\n    {line}" for line in differences)
        raise VpatchError(
            f"the patches no longer make what the lock says:{lines}",
            where=str(path),
            hint="build without --lock, and keep the new lock",
            code="image.lock-outdated",
        )
    return Locked(path, lock, made, None, _documents(context, tree, made))


def applied(
    context: Context,
    request: selection.Request,
    checkout: Path | None,
    stack: ExitStack,
    *,
    force: bool,
) -> Locked:
    """What `vpatch apply` leaves, made where it is not there yet."""
    asked = selection.resolve(request, context.library)
    if len(asked) > 1:
        names = ", ".join(job.spec.tree for job in asked)
        raise UsageError(
            f"an image needs one tree, but there are several: {names}",
            hint="name a recipe with vLLM alone",
            code="image.several-trees",
        )
    order = order_for(asked[0], checkout, context, stack)
    asked_for = bool(asked[0].recipe or request.patches)
    refuse_stopping([order.plan], asked_for=asked_for, strict=asked[0].strict)
    (done,) = apply([order], force=force, progress=context.progress)
    documents = _documents(context, order.workplace.tree, order.plan)
    return Locked(order.target / LOCK_FILE, done.lock, order.plan, order.target, documents)


def _documents(context: Context, tree: Tree, made: Plan) -> dict[str, str]:
    found = documents_of(context, tree, made, [form for _, form in DOCUMENTS.values()])
    return {path: found[form] for path, form in DOCUMENTS.values()}
