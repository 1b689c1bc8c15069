"""What a step from one release to another means for a plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.support import DeclaredReleases
from vpatch.commands.compat.target import read_target
from vpatch.commands.compat.usecase import compare_trees

if TYPE_CHECKING:
    from vpatch.commands.compat.judgement.verdict import ItemVerdict
    from vpatch.commands.compat.surface.items import ItemKind, Spot
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class PluginBreak:
    """An item of a plugin that the new release breaks, and the old one does not."""

    kind: ItemKind
    name: str
    spot: Spot
    verdict: ItemVerdict


@dataclass(frozen=True)
class PluginStep:
    """What a new release means for a plugin.

    Attributes:
        target: how the recipe names it.
        version: its version, if its metadata has one.
        items: how many items of vLLM's code were judged.
        broken_before: how many of them the old release breaks.
        breaks: those that the new release breaks, and the old one does not.
        look_again: how many fit, and are not as they were.
    """

    target: str
    version: str | None
    items: int
    broken_before: int
    breaks: tuple[PluginBreak, ...]
    look_again: int


def plugin_step(context: Context, text: str, old: CachedTree, new: CachedTree) -> PluginStep:
    """Compare what a plugin takes from vLLM in two trees. Nothing of it is run.

    A relative path begins in the folder of the project.

    Raises:
        VpatchError: the plugin is not there, or has no Python file.
    """
    place = context.library.folder / text
    target = read_target(context, str(place) if place.exists() else text)
    labels = (old.pin.label, new.pin.label)
    declared = DeclaredReleases(frozenset(), labels[0], "the recipe pins it")
    result, _ = compare_trees(context, target, declared, (old, new), labels)
    verdicts = [(item, item.verdicts[labels[1]]) for item in result.items]
    return PluginStep(
        text,
        result.version,
        len(result.items),
        len(result.breaks(labels[0])),
        tuple(
            PluginBreak(item.kind, item.name, item.spots[0], verdict)
            for item, verdict in verdicts
            if item.breaks_in(labels[1]) and not item.breaks_in(labels[0])
        ),
        sum(verdict.state == "look again" for _, verdict in verdicts),
    )
