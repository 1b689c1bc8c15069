"""An audit in Markdown, for the summary of a job or a pull request."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vpatch.commands.audit.judge import OPEN, Status
from vpatch.util.markdown import escape
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.audit.judge import AuditFinding
    from vpatch.commands.audit.result import AuditedTree, AuditResult

_HEAD = ("| advisory | severity | state | why |", "|---|---|---|---|")


def markdown(result: AuditResult) -> str:
    """Return a table for each tree, with all that is open; what no patch can tell is folded."""
    lines = [line for tree in result.trees for line in _tree(tree)]
    for unused in result.unused_accepted:
        entry = unused.acceptance
        what = f"{entry.where}: {entry.id} is accepted, and {unused.why}"
        lines += [f"- {escape(what)}"]
    if result.unused_accepted:
        lines.append("")
    count = counted(len(result.advisories.all), "advisory")
    lines += [f"{count}; the newest is of {result.advisories.as_of:%Y-%m-%d}.", ""]
    return "\n".join(lines)


def _tree(tree: AuditedTree) -> Iterator[str]:
    yield f"### {escape(tree.subject)}"
    yield ""
    counts = Counter(_state(finding) for finding in tree.findings)
    yield ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) + "."
    yield ""
    affected = [finding for finding in tree.findings if finding.status is Status.AFFECTED]
    yield from _table(sorted(affected, key=lambda one: one.is_accepted))
    others = [one for one in tree.findings if one.status in OPEN and one not in affected]
    if others:
        yield from (
            "<details>",
            f"<summary>{len(others)} under investigation or unknown</summary>",
            "",
        )
        yield from _table(others)
        yield from ("</details>", "")


def _table(findings: Sequence[AuditFinding]) -> Iterator[str]:
    if not findings:
        return
    yield from _HEAD
    for one in findings:
        name = f"{escape(one.advisory.id)}: {escape(one.advisory.summary)}"
        yield f"| {name} | {one.severity or '-'} | {_state(one)} | {_reason(one)} |"
    yield ""


def _state(finding: AuditFinding) -> str:
    words = finding.status.replace("_", " ")
    return f"{words} (accepted)" if finding.is_accepted else words


def _reason(finding: AuditFinding) -> str:
    reason = finding.reason
    if finding.accepted is not None:
        reason = f"{finding.accepted.sentence}; {reason}"
    return escape(reason)
