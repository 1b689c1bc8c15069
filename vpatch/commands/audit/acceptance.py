"""accepted-advisories.yaml: the advisories that a project accepts, each with a reason and a day."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from pydantic import Field

from vpatch.commands.audit.judge import OPEN, Acceptance
from vpatch.declare.errors import DeclarationError
from vpatch.declare.yamlfile import Declared, read_yaml
from vpatch.errors import ManyErrors, VpatchError, collect, combine
from vpatch.workspace.context import below_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree
    from vpatch.declare.yamlfile import Positions
    from vpatch.library.project import Project

ACCEPTED_FILE = "accepted-advisories.yaml"
_ENTRY = "- {id: CVE-2026-1, reason: WHY, until: 2027-01-31}"
_EXAMPLE = f"write `accepted:`, and below it entries such as `{_ENTRY}`"


class AcceptedDeclaration(Declared):
    """An advisory that the project accepts for a time. `until` is the last day, as YYYY-MM-DD."""

    id: str = Field(pattern=r"^\S{1,100}$")
    reason: str = Field(max_length=1000)
    until: str


class AcceptedAdvisories(Declared):
    """The whole file."""

    accepted: tuple[AcceptedDeclaration, ...] = ()


@dataclass(frozen=True)
class UnusedAcceptance:
    """An entry that accepts nothing of what was audited, and the reason for that."""

    acceptance: Acceptance
    why: str


def read_accepted(project: Project, today: date | None = None) -> tuple[Acceptance, ...]:
    """Read what a project accepts; without its file, nothing. `today` is the day in UTC.

    Raises:
        DeclarationError: the file is wrong, or has another name than vpatch reads.
        ManyErrors: several things are wrong with it.
    """
    path = below_project(project, ACCEPTED_FILE)
    other = path.with_suffix(".yml")
    if other.exists():
        raise DeclarationError(
            "vpatch does not read a file of this name",
            where=str(other),
            hint=f"rename it to {ACCEPTED_FILE}",
            code="library.wrong-file",
        )
    if not path.exists() and not path.is_symlink():
        return ()
    day = today or datetime.now(UTC).date()
    declared, positions = _read(path)

    def accept(index: int) -> Acceptance:
        entry = declared.accepted[index]
        if not entry.reason.strip():
            raise DeclarationError(
                f"accepted.{index}.reason: must not be empty",
                where=positions.where(["accepted", index, "reason"]),
                hint="say why the project can live with the advisory until that day",
            )
        until = _day(entry.until, positions, index)
        where = positions.where(["accepted", index])
        return Acceptance(entry.id, " ".join(entry.reason.split()), until, where, until < day)

    return tuple(collect(accept, range(len(declared.accepted))))


def _read(path: Path) -> tuple[AcceptedAdvisories, Positions]:
    try:
        return read_yaml(path, AcceptedAdvisories)
    except VpatchError as error:
        errors = error.errors if isinstance(error, ManyErrors) else (error,)
        for one in errors:
            one.hint = one.hint or _EXAMPLE
        raise combine(errors) from error


def _day(text: str, positions: Positions, index: int) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError as error:
        raise DeclarationError(
            f"accepted.{index}.until: {text[:30]!r} is not a day",
            where=positions.where(["accepted", index, "until"]),
            hint="write the last day on which it is accepted, such as 2027-01-31",
        ) from error


def accept_findings(tree: AuditedTree, accepted: Sequence[Acceptance]) -> AuditedTree:
    """Mark what a project accepts. Only what is open can be accepted; the status stays.

    Raises:
        DeclarationError: two entries are about the same advisory.
    """
    return replace(tree, findings=tuple(_accepted(one, accepted) for one in tree.findings))


def _accepted(finding: AuditFinding, accepted: Sequence[Acceptance]) -> AuditFinding:
    entries = [one for one in accepted if one.id in finding.advisory.names]
    if len(entries) > 1:
        raise DeclarationError(
            f"{entries[1].id} is accepted in {entries[0].where} already"
            + (f", as {entries[0].id}" if entries[0].id != entries[1].id else ""),
            where=entries[1].where,
            hint="remove one of the two entries",
        )
    if not entries or finding.status not in OPEN:
        return finding
    return replace(finding, accepted=entries[0])


def find_unused(
    trees: Sequence[AuditedTree], accepted: Sequence[Acceptance]
) -> Iterator[UnusedAcceptance]:
    """Yield the entries that are about nothing that is open."""
    findings = [finding for tree in trees for finding in tree.findings]
    used = {one.accepted for one in findings}
    for entry in accepted:
        if entry in used:
            continue
        theirs = [one for one in findings if entry.id in one.advisory.names]
        words = " or ".join(dict.fromkeys(one.status.replace("_", " ") for one in theirs))
        why = f"it is {words} here" if words else "vpatch knows no advisory of this id"
        yield UnusedAcceptance(entry, why)
