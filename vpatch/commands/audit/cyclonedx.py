"""An audit as CycloneDX 1.6: the patched vLLM, its pedigree, and what advisories mean for it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING
from urllib.parse import quote

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import (
    Component,
    ComponentType,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.component import (
    Patch as PedigreePatch,
)
from cyclonedx.model.impact_analysis import ImpactAnalysisJustification, ImpactAnalysisState
from cyclonedx.model.issue import IssueClassification, IssueType, IssueTypeSource
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

from vpatch import __version__
from vpatch.commands.audit.judge import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult, ScannedPackage
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


def cyclonedx(result: AuditResult, at: datetime) -> str:
    """Return the document as JSON. The same findings at the same time give the same bytes."""
    components = [_components(tree) for tree in result.trees]
    every = [one for packages in components for one in packages]
    # A bill of materials is of one thing. Several releases are listed beside each other.
    alone = every[0] if len(components) == 1 else None
    serial = _serial(result, at)
    bom = Bom(
        components=[one for one in every if one is not alone],
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
    bom.metadata.timestamp = at
    bom.metadata.tools.tools.add(Tool(name="vpatch", version=__version__))
    output = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    return output.output_as_string(indent=2) + "\n"


def _serial(result: AuditResult, at: datetime) -> uuid.UUID:
    named = [at.isoformat()]
    for tree in result.trees:
        named += [tree.subject, tree.plan.pin.digest]
        named += [f"{one.advisory.id} {one.status}" for one in tree.findings]
    return uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(named))


def _components(tree: AuditedTree) -> list[Component]:
    """The vLLM of a tree, once for each distribution that a scanner finds."""
    first, *others = tree.packages
    named = [(first, tree.subject), *((one, f"{tree.subject}: {one}") for one in others)]
    return [_component(tree, one, ref) for one, ref in named]


def _component(tree: AuditedTree, package: ScannedPackage, ref: str) -> Component:
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
        pedigree = Pedigree(ancestors=[ancestor], patches=map(_patch, tree.carried))
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=PackageURL.from_string(package.purl),
        bom_ref=ref,
        hashes=[HashTypeFactory().from_composite_str(pin.digest)],
        pedigree=pedigree,
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.VCS, url=XsUri("https://github.com/vllm-project/vllm")
            )
        ],
    )


def _patch(patch: Patch) -> PedigreePatch:
    resolved = [
        IssueType(type=IssueClassification.SECURITY, id=one.id, name=patch.title)
        for one in patch.declaration.resolves
    ]
    if resolved:
        return PedigreePatch(type=PatchClassification.BACKPORT, resolves=resolved)
    return PedigreePatch(type=PatchClassification.UNOFFICIAL, resolves=[*_threads(patch)])


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
            detail=finding.reason,
            last_updated=at,
        ),
        affects=[BomTarget(ref=one) for one in affected],
    )


def _source(name: str) -> VulnerabilitySource:
    kind = name.partition("-")[0]
    return VulnerabilitySource(name=kind, url=XsUri(f"{_SOURCES[kind]}{name}"))
