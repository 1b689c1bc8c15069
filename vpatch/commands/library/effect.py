"""What a patch makes of a release, or of what a recipe pins, as a diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.unified_diff import unified_diff
from vpatch.workspace import selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    context: Context, patch_id: str, *, vllm: str | None, recipe: str | None
) -> list[PatchEffect]:
    """Plan a patch, with those that it requires or with those of a recipe, and take its changes.

    Raises:
        UsageError: the release, the recipe or the patch is not there, or the recipe does not take
            the patch.
        VpatchError: the source cannot be read.
    """
    patches = () if recipe else (patch_id,)
    jobs = selection.resolve(selection.Request(vllm, recipe, patches=patches), context.library)
    effects: list[PatchEffect] = []
    for job in jobs:
        if patch_id not in {patch.id for patch in job.patches}:
            continue
        with context.tree(job.spec, job.expected_digest) as tree:
            plan = planned(context, job.patches, tree, to_write=True)
        decision = next(one for one in plan.decisions if one.patch.id == patch_id)
        diff = b"".join(_diff(decision.changes))
        effects.append(PatchEffect(plan.pin, decision, job.recipe, diff))
    if not effects:
        raise UsageError(
            f"the recipe {recipe} does not take {patch_id}",
            hint=f"give --vllm VERSION, or add {patch_id} to the recipe",
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
