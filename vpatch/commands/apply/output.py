"""The results of `apply` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from vpatch.checkout.lockfile import LockFile
from vpatch.checkout.new_lock import build_version
from vpatch.console.document import OutputModel
from vpatch.console.plans import TreeOutput

if TYPE_CHECKING:
    from vpatch.commands.apply.check import CheckResult
    from vpatch.commands.apply.usecase import ApplyResult


class LockChangesOutput(OutputModel):
    """What a checkout has now, against the one that it replaced; ids of patches."""

    source: str | None
    """The release, or the digest, that the earlier one was made from; null if it is the same."""
    new: list[str]
    gone: dict[str, str | None]
    """Each with its state now; null if nobody asked for it."""
    changed: list[str]
    """Patches that are not declared as they were, or with another variant."""
    kept: list[str]


class CheckoutOutput(OutputModel):
    """A checkout that has the patches."""

    tree: str
    """The tree that it was made from, as in `trees`."""
    folder: Path
    outcome: Literal["created", "replaced", "unchanged"]
    changes: LockChangesOutput | None
    """Null if no checkout with a lock was replaced."""
    lock: LockFile
    """The content of its vpatch.lock."""
    build_version: str | None
    """The version for a build of it; null if the source is not a release of vLLM."""


class ApplyOutput(OutputModel):
    """The result of `vpatch apply`."""

    trees: list[TreeOutput]
    checkouts: list[CheckoutOutput]
    """One for each tree; empty if nothing was written."""

    @classmethod
    def of(cls, done: ApplyResult) -> Self:
        return cls(
            trees=[TreeOutput.of(request.plan, request.recipe) for request in done.requests],
            checkouts=[
                CheckoutOutput(
                    tree=one.request.plan.pin.tree,
                    folder=one.request.target,
                    outcome=one.outcome,
                    changes=LockChangesOutput.model_validate(one.changes) if one.changes else None,
                    lock=one.lock,
                    build_version=build_version(one.written),
                )
                for one in done.applied
            ],
        )


class CheckOutput(OutputModel):
    """The result of `vpatch check`."""

    lock: Path
    """The lock that was checked."""
    differences: list[str]
    """Sentences for people; empty if all is as locked."""
    hint: str | None
    """What to do next, if there are differences."""
    new_shapes: list[str]
    """Sentences for people: patches on code that they are not recorded for."""

    @classmethod
    def of(cls, found: CheckResult) -> Self:
        return cls(
            lock=found.path,
            differences=list(found.differences),
            hint=found.hint if found.differences else None,
            new_shapes=list(found.new_shapes),
        )
