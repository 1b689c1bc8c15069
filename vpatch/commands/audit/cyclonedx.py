"""An audit as CycloneDX 1.6: the patched vLLM, its pedigree, and what advisories mean for it.

Of an image, the packages beside vLLM are in it too.
"""

from __future__ import annotations

import uuid
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import AttachedText, ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import (
    Component,
    ComponentType,
    Diff,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.component import (
    Patch as PedigreePatch,
)
from cyclonedx.model.contact import OrganizationalContact, OrganizationalEntity
from cyclonedx.model.impact_analysis import ImpactAnalysisJustification, ImpactAnalysisState
from cyclonedx.model.issue import IssueClassification, IssueType, IssueTypeSource
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.model.tool import Tool
from cyclonedx.model.vulnerability import (
    BomTarget,
    Vulnerability,
    VulnerabilityAdvisory,
    VulnerabilityAnalysis,
    VulnerabilityRating,
    VulnerabilityReference,
    VulnerabilitySeverity,
    VulnerabilitySource,
)
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from vpatch import __version__
from vpatch.commands.audit.judge import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from cyclonedx.model.license import License

    from vpatch.commands.audit.author import Author
    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult, ScannedPackage
    from vpatch.image.inventory import ImagePackage, Inventory
    from vpatch.library.patch import Patch

_STATES = {
    Status.AFFECTED: ImpactAnalysisState.EXPLOITABLE,
    Status.UNDER_INVESTIGATION: ImpactAnalysisState.IN_TRIAGE,
    Status.UNKNOWN: ImpactAnalysisState.IN_TRIAGE,
    Status.FIXED: ImpactAnalysisState.RESOLVED,
    Status.NOT_AFFECTED: ImpactAnalysisState.NOT_AFFECTED,
}
_SEVERITIES = {
    "low": VulnerabilitySeverity.LOW,
    "moderate": VulnerabilitySeverity.MEDIUM,
    "high": VulnerabilitySeverity.HIGH,
    "critical": VulnerabilitySeverity.CRITICAL,
}
_SOURCES = {
    "CVE": "https://www.cve.org/CVERecord?id=",
    "GHSA": "https://github.com/advisories/",
    "PYSEC": "https://osv.dev/vulnerability/",
}


def cyclonedx(result: AuditResult, at: datetime, author: Author | None = None) -> str:
    """Return the document as JSON. The same findings at the same time give the same bytes.

    `author` answers for it, and supplies what it describes.
    """
    components = [_components(tree, author) for tree in result.trees]
    every = [one for packages in components for one in packages]
    # A bill of materials is of one thing. Several releases are listed beside each other.
    alone = every[0] if len(components) == 1 else None
    serial = _serial(result, at, author)
    packages = [
        _Packages(tree, parts) for tree, parts in zip(result.trees, components, strict=True)
    ]
    beside = [one for of_tree in packages for one in of_tree.beside]
    bom = Bom(
        components=[*(one for one in every if one is not alone), *beside],
        vulnerabilities=[
            _vulnerability(finding, packages, serial, at)
            for tree, packages in zip(result.trees, components, strict=True)
            for finding in tree.stated
        ],
        serial_number=serial,
    )
    bom.metadata.component = alone
    if alone is not None and len(every) > 1:
        # The metadata of the first requires the others; see vpatch/image/payload/metadata.py.
        bom.register_dependency(alone, every[1:])
    for of_tree in packages:
        of_tree.register_requirements(bom)
    bom.metadata.timestamp = at
    if author is not None:
        bom.metadata.authors.add(OrganizationalContact(name=author.name, email=author.email))
        bom.metadata.supplier = _entity(author.name, author.email)
    bom.metadata.tools.tools.add(Tool(name="vpatch", version=__version__))
    output = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    with warnings.catch_warnings():
        # It wants the requirements of vLLM, which an image without its metadata does not tell.
        warnings.simplefilter("ignore", UserWarning)
        return output.output_as_string(indent=2) + "\n"


def _serial(result: AuditResult, at: datetime, author: Author | None) -> uuid.UUID:
    named = [at.isoformat(), *([str(author)] if author else [])]
    for tree in result.trees:
        named += [tree.subject, tree.plan.pin.digest]
        named += [tree.inventory.model_dump_json()] if tree.inventory else []
        named += [f"{one.advisory.id} {one.status}" for one in tree.findings]
    return uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(named))


def _components(tree: AuditedTree, author: Author | None) -> list[Component]:
    """The vLLM of a tree, once for each distribution that a scanner finds."""
    first, *others = tree.packages
    named = [(first, tree.subject), *((one, f"{tree.subject}: {one}") for one in others)]
    return [_component(tree, one, ref, author) for one, ref in named]


def _component(
    tree: AuditedTree, package: ScannedPackage, ref: str, author: Author | None
) -> Component:
    pin = tree.plan.pin
    pedigree = None
    if tree.carried:
        purl = PackageURL("pypi", None, pin.tree, pin.version)
        ancestor = Component(
            name=pin.tree,
            version=pin.version,
            type=ComponentType.LIBRARY,
            purl=purl,
            bom_ref=f"pristine:{purl.to_string()}:{ref}",
        )
        patches = [_patch(patch, tree.diffs.get(patch.id)) for patch in tree.carried]
        pedigree = Pedigree(ancestors=[ancestor], patches=patches)
    described = _described(tree.inventory, package)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=PackageURL.from_string(package.purl),
        bom_ref=ref,
        hashes=[HashTypeFactory().from_composite_str(pin.digest)],
        licenses=_licenses_of_python(described) if described else None,
        authors=[OrganizationalContact(name=described.supplier)]
        if described and described.supplier
        else None,
        supplier=_entity(author.name, author.email) if author else None,
        pedigree=pedigree,
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.VCS, url=XsUri("https://github.com/vllm-project/vllm")
            )
        ],
    )


def _described(inventory: Inventory | None, package: ScannedPackage) -> ImagePackage | None:
    """Return what an image's own metadata says of a package, if it has it."""
    if inventory is None:
        return None
    return next((one for one in inventory.python if _is_same(one, package)), None)


def _is_same(one: ImagePackage, package: ScannedPackage) -> bool:
    same_name = canonicalize_name(one.name) == canonicalize_name(package.name)
    return same_name and one.version == package.version


@dataclass(frozen=True)
class _Packages:
    """The packages of an image. `own` are the components of the vLLM in it."""

    tree: AuditedTree
    own: Sequence[Component]

    @cached_property
    def _of_python(self) -> dict[str, Component]:
        """The component of each Python package, by its name."""
        components: dict[str, Component] = {}
        for one in self.tree.inventory.python if self.tree.inventory else ():
            name = canonicalize_name(one.name)
            purl = PackageURL("pypi", None, name, one.version)
            same = (own for own in self.own if own.purl == purl)
            components[name] = next(same, None) or _package(one, purl, _licenses_of_python(one))
        return components

    @cached_property
    def beside(self) -> list[Component]:
        """The packages beside vLLM: those of Python, and those of Debian."""
        inventory = self.tree.inventory
        if inventory is None:
            return []
        components = [one for one in self._of_python.values() if one not in self.own]
        system, release = inventory.system
        for one in inventory.debian:
            distro = f"{system}-{release}" if system and release else ""
            known = {"arch": one.architecture, "distro": distro}
            qualifiers = {key: value for key, value in known.items() if value}
            purl = PackageURL("deb", system or "debian", one.name, one.version, qualifiers)
            # Debian's short names are not those of SPDX.
            names = [DisjunctiveLicense(name=name) for name in one.licenses]
            components.append(_package(one, purl, names))
        return components

    def register_requirements(self, bom: Bom) -> None:
        """Say which Python package requires which other one."""
        inventory = self.tree.inventory
        if inventory is None:
            return
        for one in inventory.python:
            required = inventory.required_by(one)
            others = [self._of_python[canonicalize_name(other.name)] for other in required]
            if others:
                bom.register_dependency(self._of_python[canonicalize_name(one.name)], others)


def _package(one: ImagePackage, purl: PackageURL, licenses: Sequence[License]) -> Component:
    return Component(
        name=one.name,
        version=one.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=f"image:{purl.to_string()}",
        licenses=licenses,
        supplier=_supplier(one.supplier),
    )


def _licenses_of_python(one: ImagePackage) -> list[License]:
    """Return licences as the metadata names them: SPDX's ids and expressions where it has those."""
    if len(one.licenses) == 1:
        return [LicenseFactory().make_from_string(one.licenses[0])]
    return [DisjunctiveLicense(name=name) for name in one.licenses]


def _supplier(text: str) -> OrganizationalEntity | None:
    """Return a supplier as the package names it, with its address if there is one of one party."""
    name, mark, rest = text.partition("<")
    email, end, more = rest.partition(">")
    if mark and end and not more.strip():
        return _entity(name.strip().strip('"'), email.strip())
    return _entity(text, None) if text else None


def _entity(name: str, email: str | None) -> OrganizationalEntity:
    contacts = [OrganizationalContact(name=name or None, email=email)] if email else None
    return OrganizationalEntity(name=name or email, contacts=contacts)


def _patch(patch: Patch, diff: str | None) -> PedigreePatch:
    content = None if diff is None else AttachedText(content=diff, content_type="text/x-diff")
    text = None if content is None else Diff(text=content)
    resolved = [
        IssueType(type=IssueClassification.SECURITY, id=one.id, name=patch.title)
        for one in patch.declaration.resolves
    ]
    if resolved:
        return PedigreePatch(type=PatchClassification.BACKPORT, diff=text, resolves=resolved)
    threads = [*_threads(patch)]
    return PedigreePatch(type=PatchClassification.UNOFFICIAL, diff=text, resolves=threads)


def _threads(patch: Patch) -> Iterator[IssueType]:
    source = IssueTypeSource(name="vpatch", url=None)
    yield IssueType(type=IssueClassification.DEFECT, id=patch.id, name=patch.title, source=source)
    for thread in patch.declaration.upstream:
        yield IssueType(type=IssueClassification.DEFECT, id=thread.ref, name=patch.title)


def _vulnerability(
    finding: AuditFinding, components: Sequence[Component], serial: uuid.UUID, at: datetime
) -> Vulnerability:
    advisory = finding.advisory
    state = _STATES[finding.status]
    if finding.status is Status.FIXED and components[0].pedigree is not None:
        state = ImpactAnalysisState.RESOLVED_WITH_PEDIGREE
    refs = [str(one.bom_ref.value) for one in components]
    # Trivy matches only the second: a BOM-Link, which names this document and the component in it.
    affected = [
        target for ref in refs for target in (ref, f"urn:cdx:{serial}/1#{quote(ref, safe='')}")
    ]
    absent = finding.status is Status.NOT_AFFECTED
    severity = _SEVERITIES.get(finding.severity or "", VulnerabilitySeverity.UNKNOWN)
    return Vulnerability(
        bom_ref=f"{refs[0]}/{advisory.id}",
        id=advisory.id,
        source=_source(advisory.id),
        references=[
            VulnerabilityReference(id=one, source=_source(one)) for one in advisory.aliases
        ],
        ratings=[VulnerabilityRating(severity=severity)],
        description=advisory.summary or None,
        advisories=[
            VulnerabilityAdvisory(url=XsUri(one.url))
            for one in advisory.references
            if one.type == "ADVISORY"
        ],
        analysis=VulnerabilityAnalysis(
            state=state,
            justification=ImpactAnalysisJustification.CODE_NOT_PRESENT if absent else None,
            detail=finding.note,
            last_updated=at,
        ),
        affects=[BomTarget(ref=one) for one in affected],
    )


def _source(name: str) -> VulnerabilitySource:
    kind = name.partition("-")[0]
    return VulnerabilitySource(name=kind, url=XsUri(f"{_SOURCES[kind]}{name}"))
