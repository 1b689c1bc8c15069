"""What an audit found: frozen, and the same for every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from vpatch.commands.audit.judge import Status, is_open
from vpatch.library.advisories import SEVERITIES
from vpatch.planning.state import State

if TYPE_CHECKING:
    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.library.advisories import Advisories
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan


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
    tree: a scanner finds each of them.
    """

    subject: str
    plan: Plan
    findings: tuple[AuditFinding, ...] = ()
    carried: tuple[Patch, ...] = ()
    next_options: tuple[str, ...] = ()
    image: tuple[str, str] | None = None
    installed: str | None = None
    distributions: tuple[tuple[str, str], ...] = ()

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
        """The ids of the patches that would cure what is open, in order."""
        decisions = (decision for finding in self.findings for decision in finding.decisions)
        return sorted({one.patch.id for one in decisions if one.state is State.NEEDED})

    @property
    def stated(self) -> list[AuditFinding]:
        """The findings that a document for scanners has.

        Left out is an advisory that vpatch has no patch for and whose range does not have the
        version: nobody has read the code, and no scanner reports it.
        """
        return [
            one for one in self.findings if one.decisions or one.status is not Status.NOT_AFFECTED
        ]


@dataclass(frozen=True)
class AuditResult:
    """One audited tree for each that was asked for."""

    advisories: Advisories
    trees: tuple[AuditedTree, ...]

    def has_open(self, least: str = SEVERITIES[0]) -> bool:
        """Whether an advisory of at least a severity affects a tree, and nothing cures it there."""
        return any(is_open(one, least) for tree in self.trees for one in tree.findings)
