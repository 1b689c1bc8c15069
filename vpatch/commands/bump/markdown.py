"""The report of a bump in Markdown, for a pull request or a commit message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.commands.bump.report import (
    MEANINGS,
    ORDER,
    change_said,
    commits_said,
    counts_said,
    details,
    heading,
    history_said,
    release,
    states_said,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.commands.bump.report import BumpReport, RecipeBump
    from vpatch.commands.bump.verdict import PatchBump

_TICKS = re.compile(r"`+")
_MENTION = re.compile(r"@(?=\w)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def markdown(report: BumpReport, *, with_diffs: bool = True) -> str:
    """Return the report as Markdown, with the code that changed as diffs."""
    lines: list[str] = []
    for one in report.recipes:
        lines += _recipe(one, with_diffs=with_diffs)
    for line in report.idle:
        lines += [_escaped(line), ""]
    return "\n".join(lines)


def _recipe(one: RecipeBump, *, with_diffs: bool) -> Iterator[str]:
    yield f"# {_escaped(heading(one))}"
    yield ""
    yield f"{counts_said(one.patches) or 'The recipe has no patch for vllm'}."
    yield ""
    history = history_said(one)
    if history is not None:
        yield f"{_escaped(history[0].upper() + history[1:])}."
        yield ""
    for tree in one.kept_trees:
        yield f"{_escaped(tree)} keeps its pin: vpatch bump compares releases of vLLM only."
        yield ""
    for verdict in ORDER:
        patches = [patch for patch in one.patches if patch.verdict is verdict]
        if patches:
            yield f"## {verdict.capitalize()}: {MEANINGS[verdict]}"
            yield ""
        for patch in patches:
            yield from _patch(patch, one, with_diffs=with_diffs)


def _patch(patch: PatchBump, recipe: RecipeBump, *, with_diffs: bool) -> Iterator[str]:
    yield f"### {_escaped(patch.id)}"
    yield ""
    yield f"- {_escaped(states_said(patch))}"
    for line in details(patch):
        yield f"- {_escaped(line.strip())}"
    for finding in patch.new.findings if patch.new.state.stops else ():
        yield f"- {_escaped(f'{finding.where}: {finding.what}')}"
    yield ""
    yield from _diff("The proposal:", patch.proposal.diff if patch.proposal else ())
    for one in patch.changed:
        yield f"- {_escaped(change_said(one))}"
        for line in commits_said(one):
            yield f"  - {_escaped(line)}"
        if with_diffs:
            yield ""
            yield from _diffs(one, recipe)
    if patch.changed:
        yield ""


def _diffs(one: ChangedCode, recipe: RecipeBump) -> Iterator[str]:
    old, new = release(recipe.old), release(recipe.new)
    yield from _diff(f"Upstream, {old} to {new}:", one.upstream)
    yield from _diff(f"The patch, in {old}:", one.ours)


def _diff(title: str, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    longest = max(map(len, _TICKS.findall("\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"  {_escaped(title)}"
    yield ""
    yield f"  {fence}diff"
    yield from (f"  {line}".rstrip() for line in lines)
    yield f"  {fence}"
    yield ""


def _escaped(text: str) -> str:
    # GitHub would tell whoever is called so, and no backslash prevents that.
    return _SPECIAL.sub(r"\\\1", _MENTION.sub("\uff20", " ".join(text.splitlines())))
