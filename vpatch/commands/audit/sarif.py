"""An audit as SARIF 2.1.0, for code hosts: what is open, with the place in the code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vpatch import __version__
from vpatch.commands.audit.judge import Status

if TYPE_CHECKING:
    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult
    from vpatch.library.advisories import Advisory
    from vpatch.planning.state import Finding

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# GitHub reads these as the severity of an alert.
_SCORES = {"low": "3.0", "moderate": "5.5", "high": "8.0", "critical": "9.5"}
_OPEN = (Status.AFFECTED, Status.UNDER_INVESTIGATION, Status.UNKNOWN)


def sarif(result: AuditResult) -> str:
    """Return the document: a result for each advisory that is open."""
    found = [
        (finding, tree)
        for tree in result.trees
        for finding in tree.stated
        if finding.status in _OPEN
    ]
    rules = {finding.advisory.id: finding for finding, _ in found}
    driver = {
        "name": "vpatch",
        "version": __version__,
        "rules": [_rule(one) for one in rules.values()],
    }
    order = list(rules)
    run = {
        "tool": {"driver": driver},
        "results": [_result(one, tree, order) for one, tree in found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(finding: AuditFinding) -> dict[str, Any]:
    advisory = finding.advisory
    rule: dict[str, Any] = {
        "id": advisory.id,
        "shortDescription": {"text": advisory.summary or advisory.id},
        "properties": {"tags": ["security", *sorted(advisory.aliases)]},
    }
    if finding.severity:
        rule["properties"]["security-severity"] = _SCORES[finding.severity]
    page = _page(advisory)
    return rule | ({"helpUri": page} if page else {})


def _page(advisory: Advisory) -> str | None:
    return next((one.url for one in advisory.references if one.type == "ADVISORY"), None)


def _result(finding: AuditFinding, tree: AuditedTree, rules: list[str]) -> dict[str, Any]:
    level = "note"
    if finding.status is Status.AFFECTED:
        level = "error" if finding.severity in {"high", "critical", None} else "warning"
    installed = ", ".join(map(str, tree.packages)) if tree.installed or tree.distributions else ""
    subject = f"{tree.subject} (installed: {installed})" if installed else tree.subject
    text = f"{subject}: {finding.status.replace('_', ' ')}. {finding.reason}"
    result: dict[str, Any] = {
        "ruleId": finding.advisory.id,
        "ruleIndex": rules.index(finding.advisory.id),
        "level": level,
        "message": {"text": text},
        "properties": {"packages": [one.purl for one in tree.packages]},
    }
    places = [_location(one) for one in finding.places]
    return result | ({"locations": places} if places else {})


def _location(place: Finding) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": place.path}}
    if place.line is not None:
        physical["region"] = {"startLine": place.line}
    return {"physicalLocation": physical, "message": {"text": place.what}}
