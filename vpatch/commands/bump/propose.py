"""A changed patch.yaml for a patch that does not fit a new release, if one holds on both."""

from __future__ import annotations

import difflib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.bump.candidates import candidates
from vpatch.commands.bump.successor import split_off
from vpatch.commands.bump.verdict import PatchProposal, Verdict
from vpatch.declare.patch import PatchDeclaration
from vpatch.declare.yamlfile import read_yaml
from vpatch.errors import VpatchError
from vpatch.library.loading import load_patch
from vpatch.library.patch import DECLARATION
from vpatch.planning.plan import plan
from vpatch.planning.state import State
from vpatch.planning.view import View
from vpatch.source.memory import ChangedTree
from vpatch.util.scratch import scratch_folder
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from vpatch.commands.bump.candidates import ChangedDeclaration
    from vpatch.commands.bump.verdict import PatchBump
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


def with_proposal(context: Context, one: PatchBump, old: Tree, new: Tree) -> PatchBump:
    """Add a proposal to a patch that needs a person, or why there is none.

    The changed patch must make the same of the old release, and edit as many places of the new one.
    A second run must change nothing.
    """
    if (one.verdict, one.old.state) != (Verdict.NEEDS_A_PERSON, State.NEEDED):
        return one
    if one.new.state not in {State.CONFLICT, State.ABSENT, State.NOT_DECLARED}:
        return one
    folder = one.new.patch.folder
    try:
        _, positions = read_yaml(folder / DECLARATION, PatchDeclaration)
        versions = old.pin.version or old.pin.label, new.pin.version or new.pin.label
        split = split_off(one.changed, View(old), View(new))
        tried = list(candidates(positions, one.changed, split, versions))
        holding = [c for c in tried if _holds(context, one, c, old, new)]
    except VpatchError as error:
        return replace(one, no_proposal=f"the declaration cannot be changed: {error.what}")
    if len(holding) == 1:
        text = holding[0].text
        texts = positions.content.decode().splitlines(), text.splitlines()
        diff = difflib.unified_diff(*texts, DECLARATION, DECLARATION, lineterm="")
        return replace(
            one, proposal=PatchProposal(holding[0].change, text, tuple(diff), holding[0].names)
        )
    if holding:
        reason = "several changes of the patch would fit: " + "; ".join(c.change for c in holding)
    elif tried:
        reason = (
            f"no change that was tried fits both releases: {'; '.join(c.change for c in tried)}"
        )
    else:
        reason = "nothing clearly took the place of the code that the patch is about"
    return replace(one, no_proposal=reason)


def _holds(
    context: Context, one: PatchBump, candidate: ChangedDeclaration, old: Tree, new: Tree
) -> bool:
    original = one.new.patch
    with scratch_folder() as place:
        folder = Path(place) / original.id
        shutil.copytree(original.folder, folder)
        (folder / DECLARATION).write_text(candidate.text, encoding="utf-8")
        try:
            changed = load_patch(folder, context.trust)
        except VpatchError:
            return False
        before, was = (_decision(context, patch, old) for patch in (original, changed))
        if was.state is not State.NEEDED or was.changes != before.changes:
            return False
        now = _decision(context, changed, new)
        if now.state is not State.NEEDED or now.places != before.places:
            return False
        files = {path: change.after for path, change in now.changes.items()}
        carried = frozenset(p.id for p in with_required([original.id], context.library))
        again = _decision(context, changed, ChangedTree(new, files, carried))
    return again.state is State.APPLIED


def _decision(context: Context, patch: Patch, tree: Tree) -> Decision:
    """The decision on a patch after what it requires."""
    others = [p for p in with_required([patch.id], context.library) if p.id != patch.id]
    decisions = plan([*others, patch], tree, findings_for="none").decisions
    return next(d for d in decisions if d.patch.id == patch.id)
