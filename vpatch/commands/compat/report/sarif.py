"""The result as SARIF 2.1.0, for code hosts: what breaks, with the place in the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.verdict import BREAKS
from vpatch.util.sarif import sarif_document, sarif_location

if TYPE_CHECKING:
    from pydantic import JsonValue

    from vpatch.commands.compat.result import CompatItem, CompatResult

_RULES = {
    "gone": "vLLM has this name no more",
    "changed": "vLLM has this in a form that does not fit",
    "look again": "what this replaces or uses changed in vLLM",
}


def sarif(result: CompatResult) -> str:
    """Return the document: a result for each item that does not hold in some release."""
    rules: list[dict[str, JsonValue]] = [
        {"id": f"compat/{rule.replace(' ', '-')}", "shortDescription": {"text": text}}
        for rule, text in _RULES.items()
    ]
    return sarif_document(
        rules, [entry for item in result.items for entry in _results(item, result)]
    )


def _results(item: CompatItem, result: CompatResult) -> list[dict[str, JsonValue]]:
    entries: list[dict[str, JsonValue]] = []
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
                "locations": [sarif_location(spot.path, spot.line) for spot in item.spots[:10]],
            }
        )
    return entries
