"""The report of a bump on a terminal."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

import click

from vpatch.commands.bump import report as words
from vpatch.commands.bump.verdict import Verdict
from vpatch.console import render
from vpatch.console.output import secho, style
from vpatch.planning.telling import findings_told
from vpatch.util.plural import counted
from vpatch.util.wrapping import line_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.bump.conflict.settle import SettledBump
    from vpatch.commands.bump.report import BumpReport, RecipeBump
    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.commands.bump.write import WrittenBump
    from vpatch.commands.compat.step import PluginStep

COLOURS = {
    Verdict.KEEP: "green",
    Verdict.RETIRE: "bright_blue",
    Verdict.NOT_NEEDED: "bright_black",
    Verdict.LOOK_AGAIN: "yellow",
    Verdict.NEEDS_A_PERSON: "red",
}
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
# How many definitions a patch shows without --diff, and how many names a plugin does.
_SHOWN = 8
_WIDEST = 100


def print_report(report: BumpReport, *, with_diffs: bool) -> None:
    """Print what each recipe's patches mean in the new release, the most pressing first."""
    for one in report.recipes:
        secho(words.heading(one), bold=True)
        for tree in one.kept_trees:
            click.echo(f"  {tree} keeps its pin: vpatch bump compares releases of vLLM only")
        for patch in one.by_urgency:
            _print_patch(patch, one, with_diffs=with_diffs)
        click.echo(words.counts_said(one.patches) or "the recipe has no patch for vllm")
        history = words.history_said(one)
        if history is not None:
            _print_wrapped(history, "")
        for plugin in one.plugins:
            _print_plugin(plugin, one)
        click.echo()
    for line in report.idle:
        click.echo(line)
    if not with_diffs and any(patch.verdict.is_finding for patch in report.patches):
        click.echo("next: read the code that changed with --diff, or with --output report.html")


def _print_plugin(plugin: PluginStep, recipe: RecipeBump) -> None:
    _print_wrapped(f"{plugin.target}: {words.plugin_said(plugin, recipe)}", "  ")
    for one in plugin.breaks[:_SHOWN]:
        _print_wrapped(words.break_said(one), "    ")
    if len(plugin.breaks) > _SHOWN:
        click.echo(f"    and {counted(len(plugin.breaks) - _SHOWN, 'more name')}")
    if plugin.breaks or plugin.look_again:
        click.echo(f"    next: {words.compare_command(plugin, recipe)}")


def print_written(written: WrittenBump, pull: str | None) -> None:
    """Print what was tested, the branch, what a person does with it, and about a pull request."""
    _print_branch(written)
    untested = [step for step in written.proof if step.outcome == "not run"]
    then = ", then run what was not run" if untested or not written.proof else ""
    click.echo(f"next: git switch {written.branch}{then}")
    if pull is not None:
        _print_wrapped(pull, "")


def print_unsettled(written: WrittenBump) -> None:
    """Print what was tested, the branch, and how a person settles its recipes."""
    _print_branch(written)
    for one in written.unsettled:
        click.echo(f"unsettled  {one.recipe}: {', '.join(p.patch for p in one.patches)}")
    click.echo(f"next: git switch {written.branch}, and make the patches fit:")
    steps = {step.patch: step.next for one in written.unsettled for step in one.patches}
    for patch, step in steps.items():
        click.echo(f"  {step}, then vpatch refresh {patch}")
    click.echo("then: vpatch bump --continue; vpatch bump --abort goes back")


def print_settled(settled: SettledBump) -> None:
    """Print what was tested, what the patches mean now, and what was committed."""
    for step in settled.proof:
        _print_wrapped(step.line, "")
    for one in settled.patches:
        click.echo(f"settled  {one.patch}: {one.state}")
    click.echo(f"branch {settled.branch}  {settled.commit[:12]}")
    for line in settled.subjects:
        _print_wrapped(line, "  ")
    if settled.sent is not None:
        _print_wrapped(settled.sent.said, "")
    if settled.recipes:
        click.echo(f"next: vpatch apply --recipe {settled.recipes[0]}")


def _print_branch(written: WrittenBump) -> None:
    for step in written.proof:
        _print_wrapped(step.line, "")
    click.echo(f"branch {written.branch}  {written.commit[:12]}")
    for line in (*written.subjects, *written.kept):
        _print_wrapped(line, "  ")


def _print_patch(patch: PatchBump, recipe: RecipeBump, *, with_diffs: bool) -> None:
    click.echo(f"  {style(patch.verdict, fg=COLOURS[patch.verdict])}  {patch.id}")
    for line in (words.states_said(patch), *words.details(patch)):
        _print_wrapped(line)
    _print_diff("the proposal:", patch.proposal.diff if patch.proposal else ())
    if patch.new.state.stops:
        render.print_told(findings_told(patch.new), 4, line_width())
    listed = [one for one in patch.changed if patch.verdict.is_finding or one.kind == "moved"]
    for one in patch.changed if with_diffs else listed[:_SHOWN]:
        _print_wrapped(words.change_said(one), "      ")
        for line in words.commits_said(one):
            _print_wrapped(line, "        ")
        if with_diffs:
            old, new = words.release(recipe.old), words.release(recipe.new)
            _print_diff(f"upstream, {old} to {new}:", one.upstream)
            _print_diff(f"patch, {old}:", one.ours)
    if not with_diffs and len(listed) > _SHOWN:
        click.echo(f"      and {counted(len(listed) - _SHOWN, 'more definition')}")


def _print_wrapped(text: str, indent: str = "    ") -> None:
    width = min(shutil.get_terminal_size().columns, _WIDEST) - len(indent) - 2
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    click.echo(textwrap.indent("\n  ".join(lines), indent))


def _print_diff(title: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo(f"        {title}")
    for line in lines:
        colour = _DIFF_COLOURS.get(line[:1])
        click.echo(f"          {style(line, fg=colour) if colour else line}".rstrip())
