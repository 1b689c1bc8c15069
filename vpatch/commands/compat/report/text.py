"""The result for people: a matrix of releases and kinds, then what does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.verdict import BREAKS, STATES
from vpatch.util.plural import counted
from vpatch.util.wrapping import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vpatch.commands.compat.difference import DefinitionDifference
    from vpatch.commands.compat.judgement.verdict import State
    from vpatch.commands.compat.proposals.write import CompatProposal
    from vpatch.commands.compat.result import CompatItem, CompatResult

# What is listed by itself. The rest is only counted, but with --list-all.
LISTED: tuple[State, ...] = ("gone", "changed", "look again")
_UNREAD_SHOWN = 5


def head_lines(result: CompatResult) -> Iterator[str]:
    """The target, what it is compared with, and what vpatch could not read of it."""
    version = f" {result.version}" if result.version else ""
    items = counted(len(result.items), "item")
    yield f"{result.target}{version}: {items} of vLLM's code in {counted(result.files, 'file')}"
    base = f"compared with {result.base}" if result.base else "compared with no release"
    yield f"{base}: {result.base_reason}"
    if result.unjudged:
        uses = counted(result.unjudged, "use")
        yield f"not judged: {uses} of values whose type vpatch does not know"
    for path, why in list(result.unread.items())[:_UNREAD_SHOWN]:
        yield f"not read: {path} {why}"
    if len(result.unread) > _UNREAD_SHOWN:
        yield f"not read: {len(result.unread) - _UNREAD_SHOWN} files more"
    if result.links:
        yield f"not followed: {counted(len(result.links), 'link')}, such as {result.links[0]}"


def table_lines(result: CompatResult) -> Iterator[str]:
    """The matrix with a row a release and a column a state, then one with a column a kind."""
    rows = [["release", *STATES]]
    for one in result.releases:
        label = f"{one.label}{'*' if one.is_declared else ''}"
        rows.append([label, *(str(result.count(one.label, state)) for state in STATES)])
    yield from _aligned(rows)
    broken = kind_rows(result)
    if broken:
        yield ""
        yield "gone or changed, by kind:"
        yield from _aligned(broken)
    if any(one.is_declared for one in result.releases):
        yield "* the target declares this release"


def kind_rows(result: CompatResult) -> list[list[str]]:
    """A row a release: what is gone or changed of each kind; no rows if nothing is."""
    kinds = [
        kind
        for kind in result.kinds
        if any(result.count(one.label, state, kind) for one in result.releases for state in BREAKS)
    ]
    rows = [["release", *kinds]] if kinds else []
    for one in result.releases if kinds else ():
        counts = [sum(result.count(one.label, s, kind) for s in BREAKS) for kind in kinds]
        rows.append([one.label, *(str(count or "-") for count in counts)])
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def listed_items(
    result: CompatResult, states: Iterable[State]
) -> Iterator[tuple[str, list[CompatItem]]]:
    """The items in some states, by releases: each where it first comes into that state."""
    wanted, earlier = set(states), ""
    for one in result.releases:
        items = [
            item
            for item in result.items
            if item.verdicts[one.label].state in wanted
            and (not earlier or item.verdicts[earlier].state != item.verdicts[one.label].state)
        ]
        earlier = one.label
        yield one.label, items


def item_lines(item: CompatItem, release: str, width: int) -> Iterator[str]:
    """An item in a release: its state, its name, its place, and why."""
    verdict = item.verdicts[release]
    more = f" and {len(item.spots) - 1} more" if len(item.spots) > 1 else ""
    yield f"  {verdict.state:<10}  {item.kind} {item.name}"
    conditions = f" ({'; '.join(item.conditions)})" if item.conditions else ""
    texts = [f"{item.spots[0]}{more}{conditions}"]
    if verdict.why:
        texts.append(f"{verdict.why}{f' ({verdict.where})' if verdict.where else ''}")
    if verdict.moved:
        texts.append(f"now: {verdict.moved}")
    for text in texts:
        yield from wrapped(text, width, at=14)


def result_lines(result: CompatResult, states: Sequence[State], width: int) -> Iterator[str]:
    for line in head_lines(result):
        yield from wrapped(line, width)
    yield ""
    yield from table_lines(result)
    for number, (release, items) in enumerate(listed_items(result, states)):
        if items:
            yield ""
            yield f"{release}:" if number == 0 else f"new in {release}:"
        for item in items:
            yield from item_lines(item, release, width)
    yield ""
    yield result.summary


def difference_lines(
    result: CompatResult, differences: Sequence[DefinitionDifference], width: int
) -> Iterator[str]:
    """What is new between two releases, each with the diff of vLLM's definition."""
    before, after = (one.label for one in result.releases)
    for line in head_lines(result):
        yield from wrapped(line, width)
    yield ""
    yield from table_lines(result)
    yield ""
    yield f"new from {before} to {after}: {counted(len(differences), 'item')}"
    for one in differences:
        yield from item_lines(one.item, after, width)
        for line in commit_lines(one):
            yield from wrapped(line, width, at=14)
        for line in one.lines:
            yield f"              {line}".rstrip()
    yield ""
    yield result.summary


def proposal_lines(proposals: Iterable[CompatProposal]) -> Iterator[str]:
    """The patches that were written, and why others were not."""
    for one in proposals:
        place = f"written to {one.folder}" if one.folder else "not written"
        yield f"proposal {one.name}, {place}: {one.text}"


def commit_lines(difference: DefinitionDifference) -> list[str]:
    """The commits that changed a definition; nothing if nobody was asked for them."""
    return [f"commit {one.id[:12]} {one.subject}" for one in difference.commits or ()]
