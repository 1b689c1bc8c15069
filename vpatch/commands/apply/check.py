"""Whether the patches, the source and a checkout still are what a lock says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.drift import damage, drift
from vpatch.commands.apply.relock import ask_again, takes_library
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import none_taken
from vpatch.workspace.checkout import find_lock, planned_again

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.apply.relock import AskedAgain
    from vpatch.planning.state import Plan
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class CheckResult:
    """How the library, the source and a checkout differ from a lock.

    `drifted` are differences of the recipe, the patches and the source. `damaged` are those of the
    files in the checkout. `new_shapes` says of each patch on a new shape, or with changed code
    around it, how the code differs. With `strict`, each is a difference, and so is a patch that is
    not on record at all. `hint` is what to do next, None where nothing differs.
    """

    path: Path
    lock: LockFile
    drifted: tuple[str, ...]
    damaged: tuple[str, ...]
    hint: str | None
    new_shapes: tuple[str, ...] = ()
    strict: bool = False

    @property
    def differences(self) -> tuple[str, ...]:
        return (*self.drifted, *self.damaged, *(self.new_shapes if self.strict else ()))


def check(
    context: Context,
    version: str | None,
    checkout: Path | None,
    lock_file: Path | None,
    *,
    strict: bool = False,
) -> CheckResult:
    """Apply the patches of a lock again, in memory, and compare every byte.

    With `lock_file` and no `checkout`, there is no checkout to compare. With `strict`, or if the
    recipe is strict, a new shape or changed code around one is a difference.

    Raises:
        VpatchError: no lock is found, it cannot be read, or the code of a patch is not trusted.
    """
    path, lock = find_lock(context, version, checkout, lock_file)
    asked = ask_again(lock, context.library)
    with planned_again(context, lock, asked.patches) as (_, plan):
        drifted = (*asked.differences, *drift(lock, plan))
    compared = checkout if lock_file is not None else path.parent
    damaged = tuple(damage(lock, compared)) if compared is not None else ()
    strict = strict or asked.strict
    new_shapes = tuple(_new_shapes(plan, lock, strict=strict))
    hint = None
    if drifted or damaged or (strict and new_shapes):
        again = f"vpatch apply {shlex.join(apply_options_of(context, lock, checkout))}"
        if damaged:
            again = f"save what is yours in the checkout, then {again} --force"
        hint = what_blocks(lock, plan, asked, strict=strict) or again
    return CheckResult(path, lock, drifted, damaged, hint, new_shapes, strict)


def _new_shapes(plan: Plan, lock: LockFile, *, strict: bool) -> Iterator[str]:
    """Say how code differs. Patches that nobody asked for, and that do nothing, are left out."""
    asked_for = bool(lock.recipe or lock.chosen)
    applied = {patch.id for patch in lock.patches}
    for decision in plan.decisions:
        shape, patch_id = decision.shape, decision.patch.id
        if shape is None or not decision.is_unsure:
            continue
        is_told = decision.may_be_wrong and (asked_for or patch_id in applied)
        if is_told or (strict and decision.stops_if_strict):
            yield f"{patch_id} is {decision.state}: {describe_shape(shape)}"


def what_blocks(
    lock: LockFile, plan: Plan, asked: AskedAgain, *, strict: bool = False
) -> str | None:
    """What has to be done before vpatch apply can go on; None where nothing does."""
    which = shlex.join(source_options_of(lock))
    if asked.lost:
        return "bring back what is gone, or apply another recipe or other patches"
    if asked.moved:
        return f"vpatch status {which} says what the patches mean there, before you apply them"
    asked_for = bool(lock.recipe or lock.chosen)
    stopping = plan.stopping(asked_for=asked_for, strict=strict)
    if stopping:
        return f"vpatch status {which} --why {stopping[0].patch.id}, as vpatch apply refuses this"
    if asked_for and none_taken([plan]):
        return "ask for a patch that is needed there, as vpatch apply refuses to apply none"
    return None


def source_options_of(lock: LockFile) -> Iterator[str]:
    """The options that name a lock's recipe, or its source."""
    source = lock.source
    if lock.recipe is not None:
        yield from ("--recipe", lock.recipe)
        return
    place = source.version if source.kind == "pypi" else source.origin
    if source.kind == "git":
        place = f"{source.origin}@{source.ref}"
    if source.tree == "vllm":
        yield from ("--vllm", str(place))
    else:
        yield from ("--tree", f"{source.tree}{'==' if source.kind == 'pypi' else '='}{place}")


def apply_options_of(context: Context, lock: LockFile, checkout: Path | None) -> Iterator[str]:
    """What to give vpatch apply so that it makes the lock's checkout anew."""
    yield from source_options_of(lock)
    for patch_id in lock.chosen:
        yield from ("--patch", patch_id)
    library = context.library
    if not (lock.recipe or lock.chosen) and library.of_project and takes_library(lock, library):
        yield "--library"
    if lock.security is not None:
        yield from ("--security", lock.security)
    if checkout is not None:
        yield from ("--checkout", str(checkout))
    for folder in context.patches_dirs:
        yield from ("--patches-dir", str(folder))
    for folder in context.recipes_dirs:
        yield from ("--recipes-dir", str(folder))
