"""The result as SARIF 2.1.0, for code hosts: what breaks, with the place in the target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from vpatch import __version__
from vpatch.commands.compat.judgement.verdict import BREAKS

if TYPE_CHECKING:
    from pydantic import JsonValue

    from vpatch.commands.compat.result import CompatItem, CompatResult

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_RULES = {
    "gone": "vLLM has this name no more",
    "changed": "vLLM has this in a form that does not fit",
    "look again": "what this replaces or uses changed in vLLM",
}


def sarif(result: CompatResult) -> str:
    """Return the document: a result for each item that does not hold in some release."""
    results: list[JsonValue] = [entry for item in result.items for entry in _results(item, result)]
    driver: JsonValue = {
        "name": "vpatch",
        "version": __version__,
        "rules": [
            {"id": f"compat/{rule.replace(' ', '-')}", "shortDescription": {"text": text}}
            for rule, text in _RULES.items()
        ],
    }
    run: JsonValue = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _results(item: CompatItem, result: CompatResult) -> list[JsonValue]:
    entries: list[JsonValue] = []
    declared = {one.label for one in result.releases if one.is_declared}
    for number, (state, _) in enumerate(_RULES.items()):
        releases = [r.label for r in result.releases if item.verdicts[r.label].state == state]
        if not releases:
            continue
        verdict = item.verdicts[releases[0]]
        moved = f"; now {verdict.moved}" if verdict.moved else ""
        is_error = state in BREAKS and not declared.isdisjoint(releases)
        why = f"{verdict.why or _RULES[state]}{moved}"
        text = f"{item.kind} {item.name}: {why}. In {', '.join(releases)}."
        entries.append(
            {
                "ruleId": f"compat/{state.replace(' ', '-')}",
                "ruleIndex": number,
                "level": "error" if is_error else "warning" if state in BREAKS else "note",
                "message": {"text": text},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": quote(spot.path)},
                            "region": {"startLine": spot.line},
                        }
                    }
                    for spot in item.spots[:10]
                ],
            }
        )
    return entries
