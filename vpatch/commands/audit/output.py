"""The result of `audit`."""

from __future__ import annotations

from datetime import datetime
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


class AuditedTreeOutput(OutputModel):
    """A tree that was audited."""

    subject: str
    """What was audited, for people."""
    version: str | None = read_from("plan.pin.version")
    digest: str = read_from("plan.pin.digest")
    """The digest of the tree's content, `sha256:HEX`."""
    image: Annotated[str | None, BeforeValidator(lambda image: image and image[1])]
    """The id of the image, if one was audited."""
    advisories: list[AdvisoryOutput] = read_from("findings")


class AuditOutput(OutputModel):
    """The result of `vpatch audit`."""

    advisories_as_of: datetime = read_from("advisories.as_of")
    """When the newest advisory was modified."""
    trees: list[AuditedTreeOutput]
