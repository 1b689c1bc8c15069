"""What the command that made a lock would take now: from the recipe, or from the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.source.index import LATEST, is_exact
from vpatch.source.spec import (
    EnvironmentSpec,
    FolderSpec,
    GitSpec,
    ImageSpec,
    IndexWheelSpec,
    PypiSpec,
    WheelSpec,
)
from vpatch.util.urls import redact
from vpatch.workspace import selection
from vpatch.workspace.unsettled_recipe import refuse_unsettled

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.checkout.lockfile import LockedPin, LockFile
    from vpatch.library.catalog import Library
    from vpatch.library.patch import Patch
    from vpatch.library.recipe import RecipePin, RecipeSelection
    from vpatch.source.spec import TreeSpec


@dataclass(frozen=True)
class AskedAgain:
    """The patches for the lock's tree, in order, and how recipe and library differ from the lock.

    `lost` says that the recipe, or a patch that somebody named, is not there any more, and `moved`
    that the recipe pins another source. `strict` says that the recipe stops
    where a state is not sure.
    """

    patches: tuple[Patch, ...]
    differences: tuple[str, ...]
    lost: bool
    moved: bool
    strict: bool = False


def ask_again(lock: LockFile, library: Library) -> AskedAgain:
    """Ask what a lock was the answer to.

    Raises:
        UsageError: the recipe is wrong.
    """
    locked = [*(patch.id for patch in lock.patches), *(patch.id for patch in lock.skipped)]
    gone = [i for i in dict.fromkeys([*locked, *lock.chosen]) if i not in library.patches]
    differences = [f"{i} is locked, and there is no such patch any more" for i in gone]
    moved: list[str] = []
    strict = False
    # Where all backports are gone, the differences say so.
    security = lock.security if library.security else None
    lost = not library.patches.keys() >= {*lock.chosen}
    if lock.recipe is None:
        patches = _of_library(lock, library, security)
    elif lock.recipe not in library.recipes:
        differences.append(f"the lock is of the recipe {lock.recipe}, and there is none any more")
        lost = True
        patches = library.load([i for i in locked if i in library.patches])
    else:
        path = library.recipes[lock.recipe]
        recipe = selection.read_recipe(path, library)
        refuse_unsettled(path, library)
        strict = recipe.strict
        moved = _pin_differences(lock, recipe, path, library.folder)
        ids = [i for i in recipe.patches if i in lock.chosen or not lock.chosen]
        patches = selection.with_security(ids, security or recipe.security, library)
    concerning = tuple(p for p in patches if lock.source.tree in p.declaration.needed_in)
    dropped = {*locked} - {patch.id for patch in concerning} - {*gone}
    who = f"the recipe {lock.recipe}" if lock.recipe else "vpatch apply"
    differences += [f"{i} is locked, and {who} does not take it any more" for i in sorted(dropped)]
    return AskedAgain(
        concerning, (*moved, *differences), lost=lost, moved=bool(moved), strict=strict
    )


def takes_library(lock: LockFile, library: Library) -> bool:
    """Whether a lock without a recipe is of the library's patches, and not of the project's alone.

    It has a patch that is neither the project's, nor required by one of these.
    """
    if not library.of_project:
        return True
    own = {patch.id for patch in selection.with_required(library.of_project, library)}
    locked = {*(patch.id for patch in lock.patches), *(patch.id for patch in lock.skipped)}
    return not locked & library.patches.keys() <= own | library.security


def _of_library(lock: LockFile, library: Library, security: str | None) -> list[Patch]:
    named = [i for i in lock.chosen if i in library.patches]
    usual = library.usual if takes_library(lock, library) else library.of_project
    every = selection.with_security(named or usual, security, library)
    if lock.chosen:
        return selection.with_required([patch.id for patch in every], library)
    unasked = selection.on_request(every)
    return [patch for patch in every if patch not in unasked]


def _pin_differences(lock: LockFile, recipe: RecipeSelection, path: Path, root: Path) -> list[str]:
    tree = lock.source.tree
    pin = recipe.vllm if tree == "vllm" else recipe.trees.get(tree)
    if pin is None or _is_pinned(lock.source, pin, selection.spec_of(tree, pin, path, root)):
        return []  # not of the recipe: a further tree, given with --tree
    locked = lock.source.version or lock.source.ref or lock.source.origin
    pinned, had = redact(pin.source), locked
    if pin.sha256 is not None:
        pinned, had = f"{pinned} (sha256:{pin.sha256})", f"{had} ({lock.source.digest})"
    return [f"the recipe {lock.recipe} pins {tree} {pinned}, and the lock has {had}"]


def _is_pinned(locked: LockedPin, pin: RecipePin, spec: TreeSpec) -> bool:
    """Whether a pin may mean a source; a series means its newest release at any time."""
    if pin.sha256 is not None and locked.digest != f"sha256:{pin.sha256}":
        return False
    match spec:
        case PypiSpec():
            return locked.kind == "pypi" and _is_of(locked.version or "", spec.version)
        case GitSpec():
            named = (locked.kind, locked.origin, locked.ref)
            return named == ("git", redact(spec.url), spec.ref)
        case FolderSpec():
            kind, origin = "folder", spec.path
        case WheelSpec() | IndexWheelSpec():
            kind, origin = "wheel", redact(spec.origin)
        case EnvironmentSpec():
            kind, origin = "environment", spec.path
        case ImageSpec():
            kind, origin = "image", spec.name
    return (locked.kind, locked.origin) == (kind, origin)


def _is_of(version: str, wanted: str) -> bool:
    if wanted == LATEST:
        return True
    if is_exact(wanted):
        return Version(wanted) == Version(version)
    return f"{version}.".startswith(f"{wanted}.")
