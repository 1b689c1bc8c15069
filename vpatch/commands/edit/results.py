"""What a refresh of a patch changes: its files, and what it means for releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.edit.changed_patch import beside_of
from vpatch.commands.edit.refresh_result import RefreshedPatch
from vpatch.commands.edit.states import releases_asked, states_between, states_on
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.util.unified_diff import unified_diff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.edit.changed_patch import ChangedPatch
    from vpatch.commands.edit.states import StateChange
    from vpatch.deriving.candidate import Declared
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


def unchanged(patch: Patch, tree: Tree, total: int) -> RefreshedPatch:
    """The result for a patch that stays as it is."""
    return RefreshedPatch(
        patch.id,
        patch.folder,
        tree.pin.version or tree.pin.label,
        written=False,
        variant=None,
        diff=(),
        same=total,
        total=total,
        by_text=(),
        examples=(),
        examples_hold=True,
        series=(),
        releases=(),
        checkout=None,
        kept_for=(),
    )


def result_of(
    patch: Patch,
    candidate: ChangedPatch,
    begun: Sequence[Declared],
    tree: Tree,
    *,
    carried: bool = False,
) -> RefreshedPatch:
    """The result for a patch that is written, without states.

    `begun` are the edits that the new ones began with. `carried` says that they are of another
    release.
    """
    before = (patch.folder / DECLARATION).read_bytes()
    diff = list(unified_diff(DECLARATION, before, candidate.text.encode()))
    beside = beside_of(patch.folder)
    for name, content in candidate.folded.files.items():
        if beside.get(name) != content:
            diff += unified_diff(name, beside.get(name), content)
    for name in candidate.removed:
        diff.append(f"removed {name}: no edit uses it any more\n".encode())
    same = sum(
        one.origin is not None and one.declared == begun[one.origin]
        for one in candidate.folded.edits
    )
    known = {one.name for one in patch.variants}
    new = [one.name for one in candidate.patch.variants if one.name not in known]
    return RefreshedPatch(
        patch.id,
        patch.folder,
        tree.pin.version or tree.pin.label,
        written=True,
        variant=new[-1] if carried and new else None,
        diff=tuple(diff),
        same=same,
        total=len(begun),
        by_text=candidate.folded.by_text,
        examples=tuple(note.text for note in candidate.examples),
        examples_hold=all(note.holds for note in candidate.examples),
        series=(),
        releases=(),
        checkout=None,
        kept_for=(),
    )


def states_in_series(
    context: Context, old: Plan, new: Sequence[Patch], tree: Tree
) -> tuple[StateChange, ...]:
    """The states of a series on the release that it was edited on."""
    return states_between(old, plan(new, tree, answers=context.answers, shapes=False))


def states_elsewhere(
    context: Context, old: Sequence[Patch], new: Sequence[Patch], tree: Tree, asked: str | None
) -> tuple[StateChange, ...]:
    """The states of a patch, the last one of both lists, on other releases."""
    name = tree.pin.tree
    versions = releases_asked(context, asked, name, tree.pin.version)
    return tuple(states_on(context, old, new, name, versions))
