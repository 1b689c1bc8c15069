"""The result as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.verdict import STATES
from vpatch.commands.compat.report.text import commit_lines, head_lines, listed_items
from vpatch.util.markdown import escape, fence_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.compat.difference import DefinitionDifference
    from vpatch.commands.compat.judgement.verdict import State
    from vpatch.commands.compat.result import CompatItem, CompatResult


def markdown(
    result: CompatResult,
    states: Sequence[State],
    differences: Sequence[DefinitionDifference] | None,
) -> str:
    return "\n".join(_lines(result, states, differences)) + "\n"


def _lines(
    result: CompatResult,
    states: Sequence[State],
    differences: Sequence[DefinitionDifference] | None,
) -> Iterator[str]:
    yield f"# {escape(result.target)} on vLLM"
    yield ""
    for line in head_lines(result):
        yield f"- {escape(line)}"
    yield ""
    yield f"| release | {' | '.join(STATES)} |"
    yield f"|---|{'---|' * len(STATES)}"
    for one in result.releases:
        counts = [str(result.count(one.label, state)) for state in STATES]
        label = f"**{escape(one.label)}**" if one.is_declared else escape(one.label)
        yield f"| {label} | {' | '.join(counts)} |"
    if differences is None:
        for release, items in listed_items(result, states):
            if items:
                yield ""
                yield f"## New in {escape(release)}"
                yield ""
            for item in items:
                yield _item(item, release)
    else:
        after = result.releases[-1].label
        yield ""
        yield f"## New in {escape(after)}"
        for difference in differences:
            yield ""
            yield _item(difference.item, after)
            yield from (f"  - {escape(line)}" for line in commit_lines(difference))
            if difference.lines:
                text = "\n".join(difference.lines)
                fence = fence_of(text)
                yield from ("", f"{fence}diff", text, fence)
    yield ""
    yield escape(result.summary)


def _item(item: CompatItem, release: str) -> str:
    verdict = item.verdicts[release]
    parts = [f"**{verdict.state}** {item.kind} {escape(item.name)} at {escape(str(item.spots[0]))}"]
    parts += [escape(text) for text in (verdict.why, verdict.where) if text]
    if verdict.moved:
        parts.append(f"now {escape(verdict.moved)}")
    return f"- {'; '.join(parts)}"
