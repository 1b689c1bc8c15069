"""The result of `audit`."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

from pydantic import BeforeValidator

from vpatch.commands.audit.judge import Status
from vpatch.console.document import OutputModel, read_from
from vpatch.console.plans import FindingOutput
from vpatch.declare.patch import Severity
from vpatch.planning.state import State


class CuringPatchOutput(OutputModel):
    """A patch that cures what an advisory is about."""

    patch: str = read_from("patch.id")
    """The id of the patch."""
    state: State
    reason: str
    """A sentence for people."""


class AcceptedOutput(OutputModel):
    """An entry of accepted-advisories.yaml."""

    id: str
    """The id as the file has it; an alias will do."""
    reason: str
    until: date
    """The last day, in UTC, on which it is accepted."""
    expired: bool
    """Whether the day has passed, so that the advisory counts again."""
    where: str
    """`FILE:LINE` of the entry."""


class UnusedAcceptedOutput(AcceptedOutput):
    """An entry of accepted-advisories.yaml that accepts nothing of what was audited."""

    id: str = read_from("acceptance.id")
    reason: str = read_from("acceptance.reason")
    until: date = read_from("acceptance.until")
    expired: bool = read_from("acceptance.expired")
    where: str = read_from("acceptance.where")
    why: str
    """Why it accepts nothing: a sentence for people."""


class AdvisoryOutput(OutputModel):
    """What an advisory means for a tree."""

    id: str = read_from("advisory.id")
    aliases: list[str] = read_from("advisory.aliases")
    summary: str = read_from("advisory.summary")
    severity: Severity | None
    """Null if nobody says it."""
    status: Status
    """`unknown` if vpatch has no patch that could tell."""
    reason: str
    """A sentence for people."""
    in_range: bool | None = read_from("claimed")
    """Whether the advisory claims that this version is affected; null if one of them has none."""
    remark: str | None
    """How the advisory's range and the code disagree."""
    patches: list[CuringPatchOutput] = read_from("decisions")
    places: list[FindingOutput]
    """Where the code shows it."""
    accepted: AcceptedOutput | None
    """The project's entry for it, which changes nothing of the status; null if there is none."""


class AuditedTreeOutput(OutputModel):
    """A tree that was audited."""

    subject: str
    """What was audited, for people."""
    version: str | None = read_from("plan.pin.version")
    digest: str = read_from("plan.pin.digest")
    """The digest of the tree's content, `sha256:HEX`."""
    image: Annotated[str | None, BeforeValidator(lambda image: image and image[1])]
    """The id of the image, if one was audited."""
    declared: FindingOutput | None
    """The line of the recipe that pins it; null without a recipe below the current folder."""
    advisories: list[AdvisoryOutput] = read_from("findings")


class NewerAdvisoriesOutput(OutputModel):
    """The advisories that `vpatch audit --update` took."""

    source: str
    """The file or the URL."""
    digest: str
    """The digest of the file, `sha256:HEX`."""
    taken: datetime
    newest: datetime
    """When the newest of them was modified."""


class AuditOutput(OutputModel):
    """The result of `vpatch audit`."""

    advisories_as_of: datetime = read_from("advisories.as_of")
    """When the newest advisory was modified."""
    newer: NewerAdvisoriesOutput | None
    """Null if `--update` took none."""
    trees: list[AuditedTreeOutput]
    unused_accepted: list[UnusedAcceptedOutput]
    """Entries that accept nothing of what was audited."""
