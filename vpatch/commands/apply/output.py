"""The results of `apply` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator

from vpatch.checkout.lockfile import LockFile
from vpatch.checkout.new_lock import build_version
from vpatch.console.document import OutputModel, read_from
from vpatch.console.plans import TreeOutput

_BuildVersion = Annotated[str | None, BeforeValidator(build_version)]


class LockChangesOutput(OutputModel):
    """What a checkout has now, against the one that it replaced; ids of patches."""

    source: str | None
    """The release, or the digest, that the earlier one was made from; null if it is the same."""
    new: list[str]
    gone: dict[str, str | None]
    """Each with its state now; null if nobody asked for it."""
    changed: list[str]
    """Patches that are not declared as they were, or with another variant."""
    kept: list[str]


class CheckoutOutput(OutputModel):
    """A checkout that has the patches."""

    tree: str = read_from("request.plan.pin.tree")
    """The tree that it was made from, as in `trees`."""
    folder: Path = read_from("request.target")
    outcome: Literal["created", "replaced", "unchanged"]
    changes: LockChangesOutput | None
    """Null if no checkout with a lock was replaced."""
    lock: LockFile
    """The content of its vpatch.lock."""
    build_version: _BuildVersion = read_from("written")
    """The version for a build of it; null if the source is not a release of vLLM."""


class ApplyOutput(OutputModel):
    """The result of `vpatch apply`."""

    trees: list[TreeOutput] = read_from("requests")
    checkouts: list[CheckoutOutput] = read_from("applied")
    """One for each tree; empty if nothing was written."""


class CheckOutput(OutputModel):
    """The result of `vpatch check`."""

    lock: Path = read_from("path")
    """The lock that was checked."""
    differences: list[str]
    """Sentences for people; empty if all is as locked."""
    hint: str | None
    """What to do next, if there are differences."""
    new_shapes: list[str]
    """Sentences for people: patches on code that they are not recorded for."""
