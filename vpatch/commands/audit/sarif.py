"""An audit as SARIF 2.1.0, for code hosts: what is open, with the place in the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.audit.judge import OPEN, Status
from vpatch.util.sarif import sarif_document, sarif_location

if TYPE_CHECKING:
    from pydantic import JsonValue

    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult
    from vpatch.planning.state import Finding

# GitHub reads these as the severity of an alert.
_SCORES = {"low": "3.0", "moderate": "5.5", "high": "8.0", "critical": "9.5"}


def sarif(result: AuditResult) -> str:
    """Return the document: a result for each advisory that is open."""
    findings = [
        (finding, tree)
        for tree in result.trees
        for finding in tree.stated
        if finding.status in OPEN
    ]
    rules = {finding.advisory.id: finding for finding, _ in findings}
    order = list(rules)
    results = [_result(one, tree, order) for one, tree in findings]
    return sarif_document([_rule(one) for one in rules.values()], results)


def _rule(finding: AuditFinding) -> dict[str, JsonValue]:
    advisory = finding.advisory
    properties: dict[str, JsonValue] = {"tags": ["security", *sorted(advisory.aliases)]}
    if finding.severity:
        properties["security-severity"] = _SCORES[finding.severity]
    page = next((one.url for one in advisory.references if one.type == "ADVISORY"), None)
    return {
        "id": advisory.id,
        "shortDescription": {"text": advisory.summary or advisory.id},
        "properties": properties,
        **({"helpUri": page} if page else {}),
    }


def _result(finding: AuditFinding, tree: AuditedTree, rules: list[str]) -> dict[str, JsonValue]:
    level = "note"
    if finding.status is Status.AFFECTED:
        level = "error" if finding.severity in {"high", "critical", None} else "warning"
    installed = ", ".join(map(str, tree.packages)) if tree.installed or tree.distributions else ""
    subject = f"{tree.subject} (installed: {installed})" if installed else tree.subject
    text = f"{subject}: {finding.status.replace('_', ' ')}. {finding.reason}"
    if finding.accepted is not None and finding.accepted.expired:
        text = f"{text}; it {finding.accepted.sentence}"
    places: list[JsonValue] = [_location(one) for one in finding.places]
    # A code host shows a place in its own repository. The places in vLLM are beside that.
    first: list[JsonValue] = [] if tree.declared is None else [_location(tree.declared)]
    entry: dict[str, JsonValue] = {
        "ruleId": finding.advisory.id,
        "ruleIndex": rules.index(finding.advisory.id),
        "level": level,
        "message": {"text": text},
        "properties": {"packages": [one.purl for one in tree.packages]},
        # As SARIF asks: all results have this key, or none has it.
        "suppressions": _suppressions(finding),
    }
    if first or places:
        entry["locations"] = first or places
    if first and places:
        entry["relatedLocations"] = places
    return entry


def _suppressions(finding: AuditFinding) -> list[JsonValue]:
    if finding.accepted is None or finding.accepted.expired:
        return []
    words = finding.accepted.sentence
    return [{"kind": "external", "status": "accepted", "justification": words}]


def _location(place: Finding) -> dict[str, JsonValue]:
    return {**sarif_location(place.path, place.line), "message": {"text": place.what}}
