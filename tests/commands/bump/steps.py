"""A patch in two releases, out of trees in memory."""

from __future__ import annotations

from tests.helpers import tree_of
from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.verdict import judge
from vpatch.planning.plan import plan
from vpatch.planning.view import View

OLD, NEW = "0.23.0", "0.24.0"


def stepped(patches, before, after, **pin):
    """What the step from one tree to the other means for each patch, by id."""
    old, new = (tree_of(files, version=v, **pin) for v, files in ((OLD, before), (NEW, after)))
    was, now = (plan(patches, tree, surroundings=True) for tree in (old, new))
    found = {}
    for earlier, later in zip(was.decisions, now.decisions, strict=True):
        sides = ReleaseSide(earlier, View(old)), ReleaseSide(later, View(new))
        found[later.patch.id] = judge(earlier, later, (old.pin, new.pin), changed_code(*sides))
    return found


def step(patch, before, after, **pin):
    return stepped([patch], before, after, **pin)[patch.id]


def kinds(one):
    return {(code.name, code.kind, code.edited) for code in one.changed}
