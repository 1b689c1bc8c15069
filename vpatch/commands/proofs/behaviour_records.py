"""The results of behaviour tests in each patch's shapes.json: read, compared and written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.errors import UnavailableError, UsageError
from vpatch.library.catalog import is_installed
from vpatch.library.shapes import SHAPES, Shapes, read_shapes, write_shapes
from vpatch.util.digest import digest_of
from vpatch.util.filelock import note_of_wait, wait_for_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from vpatch.declare.patch import Proof
    from vpatch.library.patch import Patch
    from vpatch.library.shapes import BehaviourInRecipe, BehaviourOnRelease
    from vpatch.workspace.context import Context


def refuse_unrecordable(patches: Iterable[Patch]) -> None:
    """Refuse to record patches that came with the installed vpatch: the next update removes it.

    Raises:
        UsageError: one of the patches lies in the installed package.
    """
    for patch in patches:
        if is_installed(patch.folder):
            raise UsageError(
                "nothing can be recorded for a patch that came with the installed vpatch",
                where=str(patch.folder),
                hint="leave out --record, or work in a checkout of vpatch or with your own patches",
                code="library.not-recordable",
            )


def digest_of_test(context: Context, patch: Patch, proof: Proof, release: str) -> str:
    """Return the digest of all that a test's result on a release depends on, beside the patch.

    That is what is declared of it, the Python files beside the patch, the plugins that it brings,
    and the patches below it. Examples are no part: `vpatch test` compares them with the patch.
    """
    exclude = {"vllm", "not_asked"}
    declared = proof.model_dump(mode="json", exclude_defaults=True, exclude=exclude)
    not_asked = [proof.refusal(release), proof.left_out(release)]
    others = {one.test for one in patch.declaration.proof} - {proof.test}
    files = {path for path in patch.folder.glob("*.py") if path.name not in others}
    for place in proof.trees.values():
        files |= {path for path in (patch.folder / place).rglob("*.py") if path.is_file()}
    parts = {
        path.relative_to(patch.folder).as_posix(): digest_of(path.read_bytes()) for path in files
    }
    below = {name: context.library.patch(name).digest for name in proof.on_top_of}
    text = json.dumps([declared, not_asked, parts, below], sort_keys=True)
    return digest_of(text.encode())


def recorded(
    patch: Patch, proof: Proof, release: str, test_digest: str
) -> tuple[str, BehaviourOnRelease] | None:
    """Return what is recorded of a test on a release, if patch and test are still the same.

    The name before it is that of the tree with the patch's code.
    """
    shapes = read_shapes(patch.folder)
    wanted = (proof.test, proof.engine, patch.digest, test_digest)
    for tree, releases in shapes.behaviour.items() if shapes else ():
        for one in releases.get(release, ()):
            if (one.test, one.engine, one.patch_digest, one.test_digest) == wanted:
                return tree, one
    return None


def record(
    context: Context, patch: Patch, tree: str, release: str, entry: BehaviourOnRelease
) -> None:
    """Write what a test showed on a release, in place of what was recorded before.

    Raises:
        UnavailableError: the file cannot be written.
    """

    def with_result(shapes: Shapes) -> Shapes:
        trees = {name: dict(releases) for name, releases in shapes.behaviour.items()}
        # The patch's code may have been in another tree before.
        for releases in trees.values():
            others = (
                one
                for one in releases.get(release, ())
                if (one.test, one.engine) != (entry.test, entry.engine)
            )
            releases[release] = tuple(others)
        entries = (*trees.setdefault(tree, {}).get(release, ()), entry)
        trees[tree][release] = tuple(sorted(entries, key=lambda one: one.test))
        return shapes.model_copy(update={"behaviour": _sort(trees)})

    update(context, patch, with_result)


def in_recipe(wanted: BehaviourInRecipe, patch: Patch, release: str) -> BehaviourInRecipe | None:
    """Return what is recorded of a test on the code that a recipe makes, if nothing changed since.

    `wanted` is a result of this test on this code; its outcome does not count.
    """
    shapes = read_shapes(patch.folder)
    outcome = {"outcome": wanted.outcome, "reason": wanted.reason}
    for releases in shapes.in_recipes.values() if shapes else ():
        for entry in releases.get(release, ()):
            if entry.model_copy(update=outcome) == wanted:
                return entry
    return None


def record_in_recipe(
    context: Context, patch: Patch, tree: str, release: str, entry: BehaviourInRecipe
) -> None:
    """Write what a test showed on what a recipe makes, in place of an earlier result.

    Raises:
        UnavailableError: the file cannot be written.
    """

    def with_result(shapes: Shapes) -> Shapes:
        trees = {name: dict(releases) for name, releases in shapes.in_recipes.items()}
        releases = trees.setdefault(tree, {})
        others = (
            one
            for one in releases.get(release, ())
            if (one.recipe, one.test, one.engine) != (entry.recipe, entry.test, entry.engine)
        )
        entries = sorted((*others, entry), key=lambda one: (one.recipe, one.test or ""))
        releases[release] = tuple(entries)
        trees[tree] = {one: releases[one] for one in sorted(releases, key=Version)}
        return shapes.model_copy(update={"in_recipes": trees})

    update(context, patch, with_result)


def update(context: Context, patch: Patch, change: Callable[[Shapes], Shapes]) -> Shapes:
    """Change the record of a patch while no other process does, and return it.

    Raises:
        UnavailableError: the file cannot be written.
    """
    lock = context.cache.folder / "locks" / SHAPES
    tell = note_of_wait(SHAPES, context.progress, "writes")
    with wait_for_lock(lock, exclusive=True, on_wait=tell):
        before = read_shapes(patch.folder)
        after = change(before or Shapes(patch_digest=patch.digest))
        if after != before:
            try:
                write_shapes(patch.folder, after)
            except OSError as error:
                raise _unwritable(patch.folder, error) from error
    return after


_Behaviour = dict[str, dict[str, tuple["BehaviourOnRelease", ...]]]


def _sort(behaviour: _Behaviour) -> _Behaviour:
    """Return it in the order of the releases, without those that have no entry."""
    return {
        tree: {
            version: releases[version]
            for version in sorted(releases, key=Version)
            if releases[version]
        }
        for tree, releases in sorted(behaviour.items())
        if any(releases.values())
    }


def _unwritable(folder: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"cannot be written: {error.strerror}",
        where=str(folder / SHAPES),
        hint="correct the permissions of the folder, or free space; then run the command again",
        code="library.unwritable-shapes",
    )
