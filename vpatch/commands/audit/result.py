"""What an audit found: frozen, and the same for every format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from vpatch.commands.audit.judge import Status, is_open
from vpatch.library.cvss import SEVERITIES
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.commands.audit.acceptance import UnusedAcceptance
    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.newer import NewerAdvisories
    from vpatch.commands.audit.signs import SignReading
    from vpatch.image.inventory import Inventory
    from vpatch.library.advisories import Advisories
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Finding, Plan
    from vpatch.source.tree import Pin


@dataclass(frozen=True)
class ScannedPackage:
    """A distribution by its name, its version if it has one, and its package URL."""

    name: str
    version: str | None
    purl: str

    @classmethod
    def of(cls, name: str, version: str) -> ScannedPackage:
        return cls(name, version, f"pkg:pypi/{canonicalize_name(name)}@{quote(version, safe='')}")

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name} {self.version}"


@dataclass(frozen=True)
class AuditedTree:
    """What was read, and what the advisories mean for it.

    `subject` names it for people. `plan` has a decision on each patch that resolves an advisory.
    `carried` are all patches of the library that the code carries, as its lock says. `next_options`
    make `vpatch apply` cure what can be cured; none where only its owner knows how. `image` is the
    name and the id of an image. `installed` is the version that an installed vLLM says it has, with
    the part after `+`; None for what is not installed. `distributions` are the names and versions
    under which it is installed, where there are several or the name is another one than that of the
    tree: a scanner finds each of them. `declared` is the line of a recipe that pins the tree, below
    the current folder; None for what is elsewhere, or no recipe. `diffs` are those of carried
    patches, by id, where they are known. `inventory` has the packages of an image. `readings` are
    what the code says of advisories that no patch cures. `applied` is the plan that was applied,
    where what was audited is what it makes.
    """

    subject: str
    plan: Plan
    findings: tuple[AuditFinding, ...] = ()
    carried: tuple[Patch, ...] = ()
    next_options: tuple[str, ...] = ()
    image: tuple[str, str] | None = None
    installed: str | None = None
    distributions: tuple[tuple[str, str], ...] = ()
    declared: Finding | None = None
    diffs: Mapping[str, str] = field(default_factory=dict)
    inventory: Inventory | None = None
    readings: Mapping[str, SignReading] = field(default_factory=dict)
    applied: Plan | None = None

    @property
    def packages(self) -> list[ScannedPackage]:
        """The vLLM as a scanner finds it: for it, 0.23.0+cpu is another version than 0.23.0."""
        pin = self.plan.pin
        if self.distributions:
            return [ScannedPackage.of(name, version) for name, version in self.distributions]
        version = self.installed or pin.version
        if version is None:
            # A URL without a version names every version. A scanner would hide the holes of others.
            purl = f"pkg:generic/{pin.tree}@{quote(pin.digest, safe='')}"
            return [ScannedPackage(pin.tree, None, purl)]
        return [ScannedPackage.of(pin.tree, version)]

    @property
    def curable(self) -> list[str]:
        """The ids of the patches that would cure what is open and not accepted, in order."""
        findings = (finding for finding in self.findings if not finding.is_accepted)
        decisions = (decision for finding in findings for decision in finding.decisions)
        return sorted({one.patch.id for one in decisions if one.state is State.NEEDED})

    @property
    def stated(self) -> list[AuditFinding]:
        """The findings that a document for scanners has.

        Left out is an advisory whose range does not have the version, unless the code was read: no
        scanner reports it.
        """
        return [one for one in self.findings if _is_stated(one, self.plan.pin)]


def _is_stated(finding: AuditFinding, pin: Pin) -> bool:
    if finding.decisions or finding.status is not Status.NOT_AFFECTED:
        return True
    return finding.reading is not None and finding.reading.is_on_record(pin)


@dataclass(frozen=True)
class AuditResult:
    """One audited tree for each that was asked for, and the entries that accept nothing there.

    `newer` are the advisories that `--update` took; None if it took none. They are in `advisories`.
    """

    advisories: Advisories
    trees: tuple[AuditedTree, ...]
    unused_accepted: tuple[UnusedAcceptance, ...] = ()
    newer: NewerAdvisories | None = None

    def has_open(self, least: str = SEVERITIES[0]) -> bool:
        """Whether an advisory of at least a severity affects a tree.

        What cures it there, or an entry of the project that accepts it, takes it out.
        """
        return any(is_open(one, least) for tree in self.trees for one in tree.findings)
