"""The report of a bump in Markdown, for a pull request or a commit message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.bump import report as words
from vpatch.util.markdown import escape, fence_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.bump.report import BumpReport, RecipeBump
    from vpatch.commands.bump.verdict import PatchBump


def markdown(report: BumpReport, *, with_diffs: bool = True) -> str:
    """Return the report as Markdown, with the code that changed as diffs."""
    lines: list[str] = []
    for one in report.recipes:
        lines += _recipe(one, with_diffs=with_diffs)
    for line in report.idle:
        lines += [escape(line), ""]
    return "\n".join(lines)


def _recipe(one: RecipeBump, *, with_diffs: bool) -> Iterator[str]:
    yield from _paragraph(f"# {escape(words.heading(one))}")
    counts = words.counts_said(one.patches)
    yield from _paragraph(f"{counts or 'The recipe has no patch for vllm'}.")
    history = words.history_said(one)
    if history is not None:
        yield from _paragraph(f"{escape(history[0].upper() + history[1:])}.")
    for tree in one.kept_trees:
        what = "keeps its pin: vpatch bump compares releases of vLLM only."
        yield from _paragraph(f"{escape(tree)} {what}")
    for plugin in one.plugins:
        yield from _paragraph(f"## Plugin {escape(plugin.target)}")
        yield from _paragraph(f"{escape(words.plugin_said(plugin, one))}.")
        yield from (f"- {escape(words.break_said(item))}" for item in plugin.breaks)
        yield from _paragraph("") if plugin.breaks else ()
    for verdict in words.ORDER:
        patches = [patch for patch in one.patches if patch.verdict is verdict]
        if patches:
            yield from _paragraph(f"## {verdict.capitalize()}: {words.MEANINGS[verdict]}")
        for patch in patches:
            yield from _patch(patch, one, with_diffs=with_diffs)


def _paragraph(text: str) -> tuple[str, str]:
    """Its line, and an empty one."""
    return text, ""


def _patch(patch: PatchBump, recipe: RecipeBump, *, with_diffs: bool) -> Iterator[str]:
    yield from _paragraph(f"### {escape(patch.id)}")
    yield f"- {escape(words.states_said(patch))}"
    for line in words.details(patch):
        yield f"- {escape(line.strip())}"
    for finding in patch.new.findings if patch.new.state.stops else ():
        yield f"- {escape(f'{finding.where}: {finding.what}')}"
    yield ""
    yield from _diff("The proposal:", patch.proposal.diff if patch.proposal else ())
    for one in patch.changed:
        yield f"- {escape(words.change_said(one))}"
        for line in words.commits_said(one):
            yield f"  - {escape(line)}"
        if with_diffs:
            old, new = words.release(recipe.old), words.release(recipe.new)
            yield ""
            yield from _diff(f"Upstream, {old} to {new}:", one.upstream)
            yield from _diff(f"The patch, in {old}:", one.ours)
    if patch.changed:
        yield ""


def _diff(title: str, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    fence = fence_of("\n".join(lines))
    yield from _paragraph(f"  {escape(title)}")
    yield f"  {fence}diff"
    yield from (f"  {line}".rstrip() for line in lines)
    yield from _paragraph(f"  {fence}")
