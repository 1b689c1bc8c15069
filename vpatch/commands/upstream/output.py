"""The results of `upstream-status` and `upstream-pr`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from vpatch.console.document import OutputModel, Sorted, read_from
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.declare.patch import Upstream
    from vpatch.errors import VpatchError


class ThreadOutput(OutputModel):
    """A thread upstream, as GitHub knows it."""

    ref: str = read_from("declared.ref")
    """OWNER/NAME#NUMBER."""
    url: str = read_from("answer.thread.url")
    kind: str = read_from("answer.thread.kind")
    """`issue` or `pull request`."""
    relation: str | None = read_from("declared.relation")
    """How the patch declares that it is related."""
    state: str = read_from("answer.thread.state")
    title: str = read_from("answer.thread.title")
    release: str | None = read_from("answer.release")
    """The first release that has what was merged."""
    asked: datetime | None = read_from("answer.asked")
    """When GitHub was asked; null if the declaration was taken for the answer."""
    live: bool = read_from("answer.live")
    """Whether GitHub was asked in this run."""
    disagreements: list[str]
    """What the patch declares otherwise: sentences for people."""


class UnknownThreadOutput(OutputModel):
    ref: str
    what: str
    """Why nothing is known of it: a sentence for people."""


def _unknown_threads(threads: Iterable[tuple[Upstream, VpatchError]]) -> list[UnknownThreadOutput]:
    return [UnknownThreadOutput(ref=thread.ref, what=error.what) for thread, error in threads]


class UpstreamPatchOutput(OutputModel):
    """A patch for a tree, with its threads."""

    patch: str = read_from("decision.patch.id")
    tree: str = read_from("plan.pin.tree")
    version: str | None = read_from("plan.pin.version")
    state: State = read_from("decision.state")
    threads: list[ThreadOutput] = read_from("known")
    unknown: Annotated[list[UnknownThreadOutput], BeforeValidator(_unknown_threads)]
    proposal: Literal["drop", "keep", "port"] = read_from("advice.action")
    reason: str = read_from("advice.reason")
    finding: bool = read_from("advice.finding")
    """Whether a person must look at it."""


class UpstreamStatusOutput(OutputModel):
    """The result of `vpatch upstream-status`. Why threads are unknown is under `errors` too."""

    patches: list[UpstreamPatchOutput]


class UpstreamBranchOutput(OutputModel):
    branch: str = read_from("target.branch")
    digest: str = read_from("tree.pin.digest")
    """The digest of the tree that the patch was applied to."""


class GateOutput(OutputModel):
    """What a proposal must pass before it is sent."""

    name: str
    verdict: Literal["pass", "fail", "not asked"]
    said: str = read_from("reason")
    """A sentence for people."""
    hint: str | None


class UpstreamPrOutput(OutputModel):
    """The result of `vpatch upstream-pr`."""

    patch: str = read_from("context.patch.id")
    target: str = read_from("context.target.repository")
    """The repository, OWNER/NAME."""
    on: UpstreamBranchOutput = read_from("context")
    branch: str
    """The branch of the pull request."""
    title: str
    labels: list[str]
    commit: str = read_from("message")
    """The message of the commit."""
    files: Sorted
    diff: str
    body: str
    person: list[str]
    """What only a person can do: sentences for people."""
    gates: list[GateOutput]
    passes: bool
    """Whether every gate passes."""
