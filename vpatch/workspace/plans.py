"""Plans with what the context keeps of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.planning.plan_cache import cached_plan
from vpatch.planning.state import overall_changes
from vpatch.source.memory import ChangedTree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.plan import FindingsFor
    from vpatch.planning.state import Plan
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


def planned(
    context: Context,
    patches: Sequence[Patch],
    tree: Tree,
    *,
    to_write: bool,
    findings_for: FindingsFor = "stopping",
    alone: Collection[str] = (),
    before: Callable[[], None] = lambda: None,
) -> Plan:
    """Return the plan for some patches on a tree, from the cache where it is there.

    See `vpatch.planning.plan_cache.cached_plan`.
    """
    return cached_plan(
        context.plans,
        patches,
        tree,
        to_write=to_write,
        findings_for=findings_for,
        alone=alone,
        # What is in the cache needs no SQLite.
        answers=lambda: context.answers,
        before=before,
    )


def decide_each(context: Context, patches: Sequence[Patch], tree: Tree) -> Plan:
    """Decide on each patch for itself; the pin of the tree must tell its content.

    What a patch would change says where the defect is.
    """
    alone = [patch.id for patch in patches]
    return planned(context, patches, tree, to_write=True, alone=alone)


def patched_tree(tree: Tree, plan: Plan) -> ChangedTree:
    """The tree that a plan makes of another one; it carries what the plan takes."""
    files = {path: change.after for path, change in overall_changes(plan).items()}
    return ChangedTree(tree, files, tree.carried | {one.patch.id for one in plan.taken})
