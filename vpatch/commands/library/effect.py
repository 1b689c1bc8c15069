"""What a patch makes of a release, or of what a recipe pins, as a diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.unified_diff import unified_diff
from vpatch.workspace import selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.planning.state import Change, Decision
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class PatchEffect:
    """What a patch means for a tree, after the patches before it, and the diff that it makes.

    `diff` is empty unless the patch is needed there.
    """

    pin: Pin
    decision: Decision
    recipe: str | None
    diff: bytes


def find_effects(
    context: Context, patch_ids: Sequence[str], *, vllm: str | None, recipe: str | None
) -> list[PatchEffect]:
    """Plan patches, with those that they require or with those of a recipe, and take their changes.

    Args:
        context: the library, and where sources are.
        patch_ids: the patches; with a recipe, none for all of its patches.
        vllm: a release or a folder; None for those of the recipe.
        recipe: the recipe; None to plan the patches alone.

    Raises:
        UsageError: the release, the recipe or a patch is not there, or the recipe does not take
            a patch.
        VpatchError: the source cannot be read.
    """
    # One at a time without a recipe: a patch that another one of them excludes is shown as well.
    groups = [()] if recipe else [(patch_id,) for patch_id in patch_ids]
    effects: list[PatchEffect] = []
    for group in groups:
        request = selection.Request(vllm, recipe, patches=group)
        jobs = selection.resolve(request, context.library, unsettled=True)
        for job in jobs:
            wanted = set(group or patch_ids or (patch.id for patch in job.patches))
            if wanted.isdisjoint(patch.id for patch in job.patches):
                continue
            with context.tree(job.spec, job.expected_digest) as tree:
                plan = planned(context, job.patches, tree, to_write=True)
            effects += [
                PatchEffect(plan.pin, one, job.recipe, b"".join(_diff(one.changes)))
                for one in plan.decisions
                if one.patch.id in wanted
            ]
    absent = sorted({*patch_ids} - {one.decision.patch.id for one in effects})
    if absent:
        raise UsageError(
            f"the recipe {recipe} does not take {', '.join(absent)}",
            hint=f"give --vllm VERSION, or add {', '.join(absent)} to the recipe",
            code="library.not-in-recipe",
        )
    return effects


def _diff(changes: Mapping[str, Change]) -> Iterator[bytes]:
    """Yield the lines of a diff that `git apply` and `patch -p1` read."""
    for path, change in sorted(changes.items()):
        name = path.encode()
        yield b"diff --git a/%s b/%s\n" % (name, name)
        if change.before is None:
            yield b"new file mode 100644\n"
        yield from unified_diff(path, change.before, change.after)
