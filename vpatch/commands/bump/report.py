"""A report of a bump, and the words that its forms share: the terminal, Markdown and HTML."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bump.upstream_commits import asked_about
from vpatch.commands.bump.verdict import Verdict
from vpatch.errors import ExitCode
from vpatch.planning.state import State
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.commands.compat.step import PluginBreak, PluginStep
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin

# The most pressing first.
ORDER = (
    Verdict.NEEDS_A_PERSON,
    Verdict.LOOK_AGAIN,
    Verdict.RETIRE,
    Verdict.NOT_NEEDED,
    Verdict.KEEP,
)
MEANINGS = {
    Verdict.NEEDS_A_PERSON: "the patch does not fit the new release",
    Verdict.LOOK_AGAIN: "upstream changed code that the patch edits or reads, or its shape is new",
    Verdict.RETIRE: "upstream has the change",
    Verdict.NOT_NEEDED: "the code that the patch is about is gone",
    Verdict.KEEP: "nothing changed for the patch",
}


@dataclass(frozen=True)
class RecipeBump:
    """What a new release means for a recipe. `kept_trees` are its other trees, which stay.

    `commits_from` says where upstream's commits were read; None if nobody was asked for them.
    `plugins` are those that the recipe names.
    """

    recipe: str
    old: Pin
    new: Pin
    patches: tuple[PatchBump, ...]
    kept_trees: tuple[str, ...] = ()
    commits_from: str | None = None
    plugins: tuple[PluginStep, ...] = ()

    @property
    def by_urgency(self) -> list[PatchBump]:
        return sorted(self.patches, key=lambda one: ORDER.index(one.verdict))


@dataclass(frozen=True)
class BumpReport:
    """`idle` says for each recipe that there is nothing to do for, why."""

    recipes: tuple[RecipeBump, ...]
    idle: tuple[str, ...]

    @property
    def patches(self) -> list[PatchBump]:
        return [patch for recipe in self.recipes for patch in recipe.patches]

    @property
    def exit_code(self) -> ExitCode:
        has_findings = any(patch.verdict.is_finding for patch in self.patches) or any(
            plugin.breaks for recipe in self.recipes for plugin in recipe.plugins
        )
        return ExitCode.FINDINGS if has_findings else ExitCode.CLEAN


def heading(one: RecipeBump) -> str:
    """Say which recipe goes from which release to which."""
    return f"{one.recipe}: {one.old.tree} {release(one.old)} to {release(one.new)}"


def release(pin: Pin) -> str:
    return pin.version or pin.ref or pin.label


def states_said(patch: PatchBump) -> str:
    """Say what the patch means in the old release, and in the new one."""
    return f"{state_said(patch.old)} -> {state_said(patch.new)}"


def state_said(decision: Decision) -> str:
    if decision.state is not State.NEEDED:
        return decision.state
    return f"needed in {counted(decision.places, 'place')}"


def details(patch: PatchBump) -> list[str]:
    """Say why the patch has its verdict, and for one that does not fit what comes next."""
    lines = list(patch.facts) or patch.reason.splitlines()
    if patch.proposal is not None:
        lines.append(f"proposal, for you to check: {patch.proposal.said}")
    if patch.no_proposal is not None:
        lines.append(f"no proposal: {patch.no_proposal}")
    if patch.next is not None:
        lines.append(f"next: {patch.next}")
    return lines


def change_said(one: ChangedCode) -> str:
    """Say in a line how upstream changed a definition, and where it is."""
    added, removed = one.counts
    place = one.after or one.before
    where = place.where if place else ""
    if one.before and one.after and one.before.path != one.after.path:
        where = f"{one.before.path} -> {where}"
    verb = "around" if one.around else "edits" if one.edited else "reads"
    name = f"{one.name} -> {one.after.said}" if one.kind == "renamed" and one.after else one.name
    return f"{verb}  {name}: {one.kind}, +{added} -{removed}, {where}"


def history_said(recipe: RecipeBump) -> str | None:
    """Say where upstream's commits were read; None if no patch asks for any."""
    if not any(asked_about(patch) for patch in recipe.patches):
        return None
    if recipe.commits_from is None:
        return "upstream's commits: not asked for, see --clone and --github"
    return f"upstream's commits: {recipe.commits_from}"


def commits_said(one: ChangedCode) -> list[str]:
    """Say which commits changed a definition, a line each; nothing if nobody was asked."""
    if one.commits == ():
        return ["no commit between the two releases changed it"]
    return [f"{commit.id[:12]} {commit.subject}" for commit in one.commits or ()]


def counts_said(patches: Sequence[PatchBump]) -> str:
    """Say how many patches have each verdict."""
    counts = Counter(patch.verdict for patch in patches)
    several = {Verdict.NEEDS_A_PERSON: "need a person"}
    return ", ".join(
        f"{number} {verdict if number == 1 else several.get(verdict, verdict)}"
        for verdict in ORDER
        if (number := counts[verdict])
    )


def plugin_said(plugin: PluginStep, recipe: RecipeBump) -> str:
    """Say in a sentence what the new release means for a plugin."""
    old, new = release(recipe.old), release(recipe.new)
    breaks = counted(len(plugin.breaks), "name") if plugin.breaks else "no name"
    verb = "breaks" if len(plugin.breaks) <= 1 else "break"
    text = f"{breaks} {verb} in {new} and not in {old}"
    if plugin.look_again:
        text += f"; look again at {plugin.look_again}"
    if plugin.broken_before:
        text += f"; broken in {old} already: {plugin.broken_before}"
    return text


def break_said(one: PluginBreak) -> str:
    """Say in a line what a plugin takes from vLLM, and why that does not hold."""
    verdict = one.verdict
    moved = f", now {verdict.moved}" if verdict.moved else ""
    where = f" ({verdict.where})" if verdict.where else ""
    return f"{verdict.state}  {one.kind} {one.name}, {one.spot}: {verdict.why}{where}{moved}"


def compare_command(plugin: PluginStep, recipe: RecipeBump) -> str:
    """Return the command that shows all of it, with the upstream diffs."""
    old, new = release(recipe.old), release(recipe.new)
    return f"vpatch compat {shlex.quote(plugin.target)} --from {old} --to {new}"
