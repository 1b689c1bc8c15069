"""The result of `audit`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self

from vpatch.commands.audit.judge import Status
from vpatch.console.document import OutputModel
from vpatch.console.plans import FindingOutput
from vpatch.declare.patch import Severity
from vpatch.planning.state import State

if TYPE_CHECKING:
    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult


class CuringPatchOutput(OutputModel):
    """A patch that cures what an advisory is about."""

    patch: str
    """The id of the patch."""
    state: State
    reason: str
    """A sentence for people."""


class AdvisoryOutput(OutputModel):
    """What an advisory means for a tree."""

    id: str
    aliases: list[str]
    summary: str
    severity: Severity | None
    """Null if nobody says it."""
    status: Status
    """`unknown` if vpatch has no patch that could tell."""
    reason: str
    """A sentence for people."""
    in_range: bool | None
    """Whether the advisory claims that this version is affected; null if one of them has none."""
    remark: str | None
    """How the advisory's range and the code disagree."""
    patches: list[CuringPatchOutput]
    places: list[FindingOutput]
    """Where the code shows it."""

    @classmethod
    def of(cls, finding: AuditFinding) -> Self:
        return cls(
            id=finding.advisory.id,
            aliases=list(finding.advisory.aliases),
            summary=finding.advisory.summary,
            severity=finding.severity,
            status=finding.status,
            reason=finding.reason,
            in_range=finding.claimed,
            remark=finding.remark,
            patches=[
                CuringPatchOutput(patch=d.patch.id, state=d.state, reason=d.reason)
                for d in finding.decisions
            ],
            places=[FindingOutput.model_validate(one) for one in finding.places],
        )


class AuditedTreeOutput(OutputModel):
    """A tree that was audited."""

    subject: str
    """What was audited, for people."""
    version: str | None
    digest: str
    """The digest of the tree's content, `sha256:HEX`."""
    image: str | None
    """The id of the image, if one was audited."""
    advisories: list[AdvisoryOutput]

    @classmethod
    def of(cls, tree: AuditedTree) -> Self:
        pin = tree.plan.pin
        return cls(
            subject=tree.subject,
            version=pin.version,
            digest=pin.digest,
            image=tree.image[1] if tree.image else None,
            advisories=[AdvisoryOutput.of(one) for one in tree.findings],
        )


class AuditOutput(OutputModel):
    """The result of `vpatch audit`."""

    advisories_as_of: datetime
    """When the newest advisory was modified."""
    trees: list[AuditedTreeOutput]

    @classmethod
    def of(cls, result: AuditResult) -> Self:
        return cls(
            advisories_as_of=result.advisories.as_of,
            trees=[AuditedTreeOutput.of(tree) for tree in result.trees],
        )
