"""What must hold before a work tree becomes a patch."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vpatch.changes.stack import Stack
from vpatch.commands.edit.series import Series, planned_series
from vpatch.commands.edit.workbench import Outcome
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.errors import UsageError
from vpatch.git import checkout as git
from vpatch.git.branch import content_at
from vpatch.git.command import BASE_BRANCH
from vpatch.git.found import opened_checkout
from vpatch.library.patch import DECLARATION
from vpatch.merging.markers import marker_places
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from vpatch.changes.change import FileChange, SourceChange
    from vpatch.commands.edit.declaration.patch_text import Location
    from vpatch.commands.edit.record import EditRecord
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

_SHOWN = 4
_STASH = "refs/stash"
# What vpatch keeps in a checkout.
_OWN_REFS = ("refs/vpatch/", f"refs/heads/{BASE_BRANCH}")


def series_of_record(context: Context, record: EditRecord, tree: Tree, folder: Path) -> Series:
    """The series as it was when the edit in `folder` began.

    Raises:
        UsageError: an earlier patch was changed since.
    """
    library = context.library
    ids = [*record.earlier, record.patch, *record.later]
    missing = [one for one in ids if one not in library.patches]
    patches = library.load([one for one in ids if one in library.patches])
    changed = [one.id for one in patches if record.earlier.get(one.id, one.digest) != one.digest]
    changed += [one for one in missing if one in record.earlier]
    if changed:
        raise UsageError(
            f"{', '.join(changed)} changed since the edit began, and the work tree has it as "
            "it was",
            where=str(folder),
            hint=f"save your change (git diff refs/vpatch/patched), run vpatch edit --abort "
            f"{record.patch}, and begin again",
            code="edit.series-changed",
        )
    return planned_series(context, patches, record.patch, tree)


def change_of(folder: Path, record: EditRecord, series: Series) -> SourceChange:
    """What a work tree has otherwise than the tree below the patch.

    Raises:
        UsageError: nothing, or there are conflict markers in it.
    """
    refuse_nothing_left(folder, record.below)
    stack, own = Stack(series.tree_below), series.decision.changes.keys()
    (change,) = from_checkout(folder, record.below, stack, own, record.patched)
    refuse_markers(folder, change)
    return change


def refuse_nothing_left(folder: Path, below: str) -> None:
    """Refuse a work tree that is as `below`, the commit below the patch."""
    with opened_checkout(folder) as repo:
        changed = bool(git.changed_paths(repo, below))
    if not changed:
        raise UsageError(
            "nothing of the patch remains in the work tree",
            where=str(folder),
            hint="to drop the patch, take it out of its recipe and remove its folder; or take "
            "the change back with git checkout refs/vpatch/patched -- .",
            code="edit.nothing-left",
        )


def refuse_own_work(folder: Path) -> None:
    """Refuse a checkout with work that is not in its work tree, and would go with it.

    Raises:
        UsageError: it has a stash, or commits that are not checked out, or a further work tree.
    """
    with opened_checkout(folder) as repo:
        refs = [one for one in git.unmerged_refs(repo) if not one.startswith(_OWN_REFS)]
    work = ["a stash" if one == _STASH else f"commits at {one}" for one in refs]
    work += [f"the worktree {name}" for name in git.worktrees(folder)]
    if not work:
        return
    command = f"git -C {shlex.quote(str(folder))}"
    raise UsageError(
        f"the checkout has what would go with it: {listed(work, _SHOWN)}",
        where=str(folder),
        hint=f"take into the work tree what you need, such as with {command} stash pop, and remove "
        "the rest (git stash drop, git branch -D, git worktree remove); then run the command again",
        code="edit.own-work",
    )


def left_out_of(change: SourceChange) -> tuple[str, ...]:
    """What of a work tree no patch can have, a sentence each."""
    ignored = (note for note in change.notes if note.startswith("git ignores"))
    return (*(f"{one.path}: {one.why}" for one in change.aside), *ignored)


def changed_since(folder: Path, files: Iterable[FileChange]) -> Iterator[str]:
    """Name files of a work tree that are not as they were when it was read."""
    for file in files:
        place = folder / file.path
        if not place.is_file() or place.read_bytes() != file.after:
            yield f"{file.path}: somebody changed it while the command ran"


def refuse_markers(folder: Path, change: SourceChange) -> None:
    """Refuse conflict markers in a work tree."""
    places = [
        place
        for file in change.files
        for place in marker_places(file.path, file.after, file.before or b"")
    ]
    if places:
        raise UsageError(
            f"there are conflict markers at {listed([one.where for one in places], _SHOWN)}",
            where=str(folder / places[0].path),
            hint="leave the code there that the patch is to make, without the markers, and run the "
            "command again",
            code="edit.conflict-markers",
        )


def location_at(patch: Patch, series: Series) -> Location:
    """Where patch.yaml has the edits that are edited.

    Raises:
        UsageError: the patch has variants, and none of them fits.
    """
    names = [one.name for one in patch.declaration.variants]
    if not names:
        return ("edits",)
    name = series.decision.variant
    if name in names:
        return ("variants", names.index(name), "edits")
    fitting = [
        number for number, one in enumerate(patch.variants) if one.name == name or name is None
    ]
    if len(fitting) == 1:
        return ("variants", fitting[0], "edits")
    raise UsageError(
        f"the patch is {series.decision.state} on {series.tree.pin.label}: "
        f"{series.decision.reason}",
        where=str(patch.folder / DECLARATION),
        hint="correct patch.yaml so that the patch applies, or begin the edit again",
        code="edit.not-needed",
    )


def files_at(folder: Path, commit: str) -> Callable[[Collection[str]], Mapping[str, bytes | None]]:
    """Read files of a commit of a checkout."""

    def read(paths: Collection[str]) -> Mapping[str, bytes | None]:
        with opened_checkout(folder) as repo:
            return {path: content_at(repo, commit, path) for path in paths}

    return read


def refuse_changed_patch(
    patch: Patch,
    outcome: Outcome | int,
    begun: Callable[[Collection[str]], Mapping[str, bytes | None]],
) -> None:
    """Refuse a patch whose edits somebody changed since: the work tree would undo that."""
    if isinstance(outcome, Outcome):
        files = begun(set(outcome.view.files))
        if all(outcome.view.read(path) == content for path, content in files.items()):
            return
    raise changed_patch_error(patch)


def changed_patch_error(patch: Patch) -> UsageError:
    return UsageError(
        "the edits of the patch changed since the edit began, and the work tree has the change "
        "as it was",
        where=str(patch.folder / DECLARATION),
        hint=f"save your change (git diff refs/vpatch/patched), run vpatch edit --abort "
        f"{patch.id}, and begin again",
        code="edit.patch-changed",
    )
