"""The results of `status`, `apply` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from vpatch.checkout.lockfile import LockFile
from vpatch.output.base import OutputModel
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.app.apply import ApplyResult
    from vpatch.app.check import CheckResult
    from vpatch.app.status import StatusRow
    from vpatch.planning.state import Decision, Plan


class FindingOutput(OutputModel):
    """Something that was looked for in a tree."""

    what: str
    """A sentence for people."""
    path: str | None
    """The file, relative to the root of the tree."""
    line: int | None
    """The line in the pristine file, from 1."""


class DecisionOutput(OutputModel):
    """What a patch means for a tree."""

    patch: str
    """The id of the patch."""
    digest: str
    """The digest of the patch, `sha256:HEX`."""
    state: State
    reason: str
    """A sentence for people."""
    variant: str | None
    """The variant of the patch that was used."""
    disagreement: str | None
    """A sentence if the code disagrees with what the patch declares in `needed-in`."""
    files: list[str]
    """The files that the patch changes, sorted."""
    findings: list[FindingOutput]

    @classmethod
    def of(cls, decision: Decision) -> Self:
        return cls(
            patch=decision.patch.id,
            digest=decision.patch.digest,
            state=decision.state,
            reason=decision.reason,
            variant=decision.variant,
            disagreement=decision.disagreement,
            files=sorted(decision.changes),
            findings=[FindingOutput.model_validate(one) for one in decision.findings],
        )


class TreeOutput(OutputModel):
    """A pinned tree, and what each patch means for it."""

    tree: str
    """The name of the distribution, such as `vllm`."""
    version: str | None
    ref: str | None
    """The git commit or tag; null for a release."""
    origin: str
    """Where the tree was found."""
    digest: str
    """The digest of the tree's content, `sha256:HEX`."""
    recipe: str | None
    """The recipe that chose the patches."""
    decisions: list[DecisionOutput]

    @classmethod
    def of(cls, plan: Plan, recipe: str | None) -> Self:
        pin = plan.pin
        return cls(
            tree=pin.tree,
            version=pin.version,
            ref=pin.ref,
            origin=pin.origin,
            digest=pin.digest,
            recipe=recipe,
            decisions=[DecisionOutput.of(decision) for decision in plan.decisions],
        )


class StatusOutput(OutputModel):
    """The result of `vpatch status`."""

    trees: list[TreeOutput]

    @classmethod
    def of(cls, rows: Iterable[StatusRow]) -> Self:
        return cls(trees=[TreeOutput.of(row.plan, row.recipe) for row in rows])


class CheckoutOutput(OutputModel):
    """A checkout that has the patches."""

    tree: str
    """The tree that it was made from, as in `trees`."""
    folder: Path
    outcome: Literal["created", "replaced", "unchanged"]
    lock: LockFile
    """The content of its vpatch.lock."""


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
                    tree=one.order.plan.pin.tree,
                    folder=one.order.target,
                    outcome=one.outcome,
                    lock=one.lock,
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

    @classmethod
    def of(cls, found: CheckResult) -> Self:
        return cls(
            lock=found.path,
            differences=list(found.differences),
            hint=found.hint if found.differences else None,
        )
