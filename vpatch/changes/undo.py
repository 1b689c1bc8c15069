"""A release without changes that it has already: what a merged change was made on top of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.paths import aside
from vpatch.changes.stack import Stack, apply, place_of, unsure
from vpatch.changes.time_limit import check_time
from vpatch.errors import ManyErrors, UsageError, VpatchError, collect, combine
from vpatch.git.scratch import ScratchRepository
from vpatch.source.memory import ChangedTree
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.changes.change import DiffedChange, SourceChange
    from vpatch.changes.file_diff import FileDiff
    from vpatch.source.tree import Tree


@dataclass(frozen=True)
class FittedChanges:
    """Changes, and the tree that they are on top of.

    `upstreamed` says that the release has them already: then `base` is the release without them.
    """

    base: Tree
    changes: list[SourceChange]
    upstreamed: bool = False


def fitted(
    diffed: Sequence[DiffedChange], tree: Tree, *, upstreamed: bool = False, fuzz: bool = False
) -> FittedChanges:
    """Find out how changes fit a release: on top of it, or as a part of it.

    With `upstreamed`, they must be a part of it. With `fuzz`, what fits neither way is laid in with
    `patch`.

    Raises:
        UsageError: they fit neither way, or do what no patch can do.
    """
    if upstreamed:
        return _as_part(diffed, tree)
    try:
        changes = _on_top(diffed, tree)
    except VpatchError as error:
        # Any other error is there both ways.
        if not _does_not_apply(error):
            raise
        try:
            return _as_part(diffed, tree)
        except VpatchError:
            if fuzz:
                return FittedChanges(tree, _on_top(diffed, tree, fuzz=True))
            raise error from None
    if fuzz:
        note = "git takes it as it is, without --fuzz"
        changes = [replace(change, notes=(*change.notes, note)) for change in changes]
    if not _is_there(diffed, tree):
        return FittedChanges(tree, changes)
    note = (
        f"it fits both ways: if {tree.pin.label} has it already, remove the patch, and import it "
        "again with --upstreamed"
    )
    noted = [replace(change, notes=(*change.notes, note)) for change in changes]
    return FittedChanges(tree, noted)


def _is_there(diffed: Sequence[DiffedChange], tree: Tree) -> bool:
    """Whether a release shows changes that fit on top of it as well."""
    hunks = [hunk for change in diffed for diff in change.diffs for hunk in diff.hunks]
    # Nothing shows that lines were taken away.
    if not all(hunk.side("+") for hunk in hunks):
        return False
    try:
        _take_out(diffed, tree)
    except VpatchError:
        return False
    return True


def _does_not_apply(error: VpatchError) -> bool:
    errors = error.errors if isinstance(error, ManyErrors) else [error]
    return any(one.code == "importing.does-not-apply" for one in errors)


def _on_top(
    diffed: Sequence[DiffedChange], tree: Tree, *, fuzz: bool = False
) -> list[SourceChange]:
    return collect(Stack(tree, fuzz=fuzz).take, diffed)


def _as_part(diffed: Sequence[DiffedChange], tree: Tree) -> FittedChanges:
    base, notes = _take_out(diffed, tree)
    changes = _on_top(diffed, base)
    noted = [
        replace(change, notes=(*change.notes, *notes[number]))
        for number, change in enumerate(changes)
    ]
    return FittedChanges(base, noted, upstreamed=True)


def _take_out(diffed: Sequence[DiffedChange], tree: Tree) -> tuple[Tree, Mapping[int, list[str]]]:
    """The release without changes, the last one first; and for each of them, what is not sure."""
    stack = Stack(tree)
    errors: list[VpatchError] = []
    notes: dict[int, list[str]] = {}
    # None for a file that a change added.
    files: dict[str, bytes | None] = {}
    with scratch_folder() as folder:
        scratch = ScratchRepository(folder)
        for number, change in reversed(list(enumerate(diffed))):
            notes[number] = []
            placed = zip(change.diffs, stack.places(change), strict=True)
            for diff, path in reversed([(diff, place.path) for diff, place in placed]):
                content = files[path] if path in files else stack.read(path)
                if not _is_taken(diff, path, content):
                    continue
                notes[number] += unsure(path, [diff], content, "+")
                scratch.state({} if content is None else {path: content})
                check_time()
                if reply := apply(scratch, diff, path, reverse=True):
                    place = place_of(path, reply, diff, content, "+")
                    errors.append(_not_there(place, change.where, tree))
                else:
                    files[path] = scratch.read([path]).get(path)
    if errors:
        raise combine(errors)
    left_out = frozenset(path for path, content in files.items() if content is None)
    changed = {path: content for path, content in files.items() if content is not None}
    return ChangedTree(tree, changed, frozenset(), left_out), notes


def _is_taken(diff: FileDiff, path: str, content: bytes | None) -> bool:
    """Whether a stack would take the diff: what it leaves aside or refuses is not undone."""
    if aside(path) is not None or diff.refused is not None or diff.new is None:
        return False
    return diff.old is None or content is not None


def _not_there(place: str, where: str, tree: Tree) -> UsageError:
    return UsageError(
        f"{tree.pin.label} does not have the change: {place}",
        where=where,
        hint="leave out --upstreamed if the release is to get it, or name the first release that "
        "has it with --vllm",
        code="importing.not-upstreamed",
    )
