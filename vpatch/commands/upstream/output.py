"""The results of `upstream-status` and `upstream-pr`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, Self

from vpatch.console.document import OutputModel
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.commands.upstream.propose import Proposed
    from vpatch.commands.upstream.status import Known, PatchStatus


class ThreadOutput(OutputModel):
    """A thread upstream, as GitHub knows it."""

    ref: str
    """OWNER/NAME#NUMBER."""
    url: str
    kind: str
    """`issue` or `pull request`."""
    relation: str | None
    """How the patch declares that it is related."""
    state: str
    title: str
    release: str | None
    """The first release that has what was merged."""
    asked: datetime | None
    """When GitHub was asked; null if the declaration was taken for the answer."""
    live: bool
    """Whether GitHub was asked in this run."""
    disagreements: list[str]
    """What the patch declares otherwise: sentences for people."""

    @classmethod
    def of(cls, known: Known) -> Self:
        answer = known.answer
        return cls(
            ref=known.declared.ref,
            url=answer.thread.url,
            kind=answer.thread.kind,
            relation=known.declared.relation,
            state=answer.thread.state,
            title=answer.thread.title,
            release=answer.release,
            asked=answer.asked,
            live=answer.live,
            disagreements=list(known.disagreements),
        )


class UnknownThreadOutput(OutputModel):
    ref: str
    what: str
    """Why nothing is known of it: a sentence for people."""


class UpstreamPatchOutput(OutputModel):
    """A patch for a tree, with its threads."""

    patch: str
    tree: str
    version: str | None
    state: State
    threads: list[ThreadOutput]
    unknown: list[UnknownThreadOutput]
    proposal: Literal["drop", "keep", "port"]
    reason: str
    finding: bool
    """Whether a person must look at it."""

    @classmethod
    def of(cls, row: PatchStatus) -> Self:
        return cls(
            patch=row.decision.patch.id,
            tree=row.plan.pin.tree,
            version=row.plan.pin.version,
            state=row.decision.state,
            threads=[ThreadOutput.of(known) for known in row.known],
            unknown=[UnknownThreadOutput(ref=o.ref, what=e.what) for o, e in row.unknown],
            proposal=row.advice.action,
            reason=row.advice.reason,
            finding=row.advice.finding,
        )


class UpstreamStatusOutput(OutputModel):
    """The result of `vpatch upstream-status`. Why threads are unknown is under `errors` too."""

    patches: list[UpstreamPatchOutput]

    @classmethod
    def of(cls, rows: Iterable[PatchStatus]) -> Self:
        return cls(patches=[UpstreamPatchOutput.of(row) for row in rows])


class UpstreamBranchOutput(OutputModel):
    branch: str
    digest: str
    """The digest of the tree that the patch was applied to."""


class GateOutput(OutputModel):
    """What a proposal must pass before it is sent."""

    name: str
    verdict: Literal["pass", "fail", "not asked"]
    said: str
    """A sentence for people."""
    hint: str | None


class UpstreamPrOutput(OutputModel):
    """The result of `vpatch upstream-pr`."""

    patch: str
    target: str
    """The repository, OWNER/NAME."""
    on: UpstreamBranchOutput
    branch: str
    """The branch of the pull request."""
    title: str
    labels: list[str]
    commit: str
    """The message of the commit."""
    files: list[str]
    diff: str
    body: str
    person: list[str]
    """What only a person can do: sentences for people."""
    gates: list[GateOutput]
    passes: bool
    """Whether every gate passes."""

    @classmethod
    def of(cls, proposed: Proposed) -> Self:
        target = proposed.target
        return cls(
            patch=proposed.patch.id,
            target=target.repository,
            on=UpstreamBranchOutput(branch=target.branch, digest=proposed.base.digest),
            branch=proposed.branch,
            title=proposed.title,
            labels=list(proposed.labels),
            commit=proposed.message,
            files=sorted(proposed.files),
            diff=proposed.diff,
            body=proposed.body,
            person=list(proposed.person),
            gates=[GateOutput.model_validate(gate) for gate in proposed.gates],
            passes=proposed.passes,
        )
