"""What to do after a drift was found."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vpatch.planning.state import none_taken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.app.relock import AskedAgain
    from vpatch.checkout.lockfile import LockFile
    from vpatch.planning.state import Plan


def what_blocks(lock: LockFile, made: Plan, asked: AskedAgain) -> str | None:
    """What has to be done before vpatch apply can go on; None where nothing does."""
    which = shlex.join(source_options_of(lock))
    if asked.lost:
        return "bring back what is gone, or apply another recipe or other patches"
    if asked.moved:
        return f"vpatch status {which} says what the patches mean there, before you apply them"
    asked_for = bool(lock.recipe or lock.chosen)
    stopping = made.stopping(asked_for=asked_for)
    if stopping:
        return f"vpatch status {which} --why {stopping[0].patch.id}, as vpatch apply refuses this"
    if asked_for and none_taken([made]):
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


def apply_options_of(context: Context, lock: LockFile, target: Path | None) -> Iterator[str]:
    """What to give vpatch apply so that it makes the lock's checkout anew."""
    yield from source_options_of(lock)
    for patch_id in lock.chosen:
        yield from ("--patch", patch_id)
    if target is not None:
        yield from ("--to", str(target))
    for option, folders in (("--patches", context.patches), ("--recipes", context.recipes)):
        for folder in folders:
            yield from (option, str(folder))
