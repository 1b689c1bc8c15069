"""An audit as OpenVEX 0.2.0 (https://github.com/openvex/spec)."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.commands.audit.judge import Status

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

    from vpatch.commands.audit.author import Author
    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult

_CONTEXT = "https://openvex.dev/ns/v0.2.0"
_AUTHOR = "vpatch"
_ROLE = "Document Creator"


def openvex(result: AuditResult, at: datetime, author: Author | None = None) -> str:
    """Return the document. The same findings at the same time give the same bytes."""
    statements = [
        {**statement_of(one), "products": _products(tree)}
        for tree in result.trees
        for one in tree.stated
    ]
    return document_of_statements(statements, at, author)


def document_of_statements(
    statements: list[dict[str, JsonValue]], at: datetime, author: Author | str | None
) -> str:
    """Return a document with these statements."""
    who = _AUTHOR if author is None else str(author)
    content = json.dumps([statements, at.isoformat(), who], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    document = {
        "@context": _CONTEXT,
        "@id": f"https://openvex.dev/docs/public/vex-{digest}",
        "author": who,
        "role": _ROLE,
        "timestamp": at.isoformat(),
        "version": 1,
        "tooling": f"vpatch {__version__}",
        "statements": statements,
    }
    return json.dumps(document, indent=2) + "\n"


def statement_of(finding: AuditFinding) -> dict[str, JsonValue]:
    """Return what a finding says, of no product yet."""
    advisory = finding.advisory
    vulnerability: dict[str, JsonValue] = {"name": advisory.id}
    if advisory.aliases:
        vulnerability["aliases"] = [*advisory.aliases]
    if advisory.summary:
        vulnerability["description"] = advisory.summary
    status = finding.status
    statement: dict[str, JsonValue] = {
        "vulnerability": vulnerability,
        "status": Status.UNDER_INVESTIGATION if status is Status.UNKNOWN else status,
        "status_notes": finding.note,
    }
    if status is Status.AFFECTED:
        patches = ", ".join(decision.patch.id for decision in finding.decisions)
        reason = finding.reason[0].upper() + finding.reason[1:]
        statement["action_statement"] = f"Apply the patch {patches}." if patches else f"{reason}."
    elif status is Status.NOT_AFFECTED:
        # Beside a justification, the first edition of the schema refuses an impact_statement.
        statement["justification"] = "vulnerable_code_not_present"
    return statement


def _products(tree: AuditedTree) -> list[JsonValue]:
    packages: list[JsonValue] = [{"@id": one.purl} for one in tree.packages]
    if tree.image is None:
        return packages
    # A scanner of an image asks about the image, or about a package in it.
    return [{"@id": _image_purl(*tree.image), "subcomponents": packages}, *packages]


def _image_purl(name: str, identity: str) -> str:
    repository = name.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return f"pkg:oci/{repository}@{identity.replace(':', '%3A')}"
