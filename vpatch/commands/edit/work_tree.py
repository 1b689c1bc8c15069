"""A checkout with a series up to a patch, and the change of the patch in the work tree."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.lockfile import LockedPin
from vpatch.checkout.transaction import CheckoutTransaction, WrongTargetError, lock_target
from vpatch.commands.edit.absorb.record import read_series_record
from vpatch.commands.edit.absorb.replacement import finish
from vpatch.commands.edit.carry import CarriedPatch, carried, may_be_carried
from vpatch.commands.edit.checks import changed_since, left_out_of, refuse_own_work
from vpatch.commands.edit.declaration.patch_text import digest_of_edits
from vpatch.commands.edit.record import (
    CARRIED_DIFF,
    CarriedRecord,
    EditRecord,
    find_edit,
    place_of,
    read_record,
)
from vpatch.commands.edit.series import Series, planned_series, selected
from vpatch.errors import UsageError
from vpatch.git import checkout as git
from vpatch.git.checkout import NewCommit
from vpatch.git.found import opened_checkout
from vpatch.library.patch import DECLARATION
from vpatch.planning.state import State
from vpatch.util.directories import remove
from vpatch.util.scratch import staging_folder
from vpatch.util.uninterrupted import uninterrupted
from vpatch.workspace.checkout import hide_from_git, real_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.changes.change import SourceChange
    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.workspace.context import Context

_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


@dataclass(frozen=True)
class OpenedEdit:
    """A checkout to edit a patch in. `later` are those of the series that are not in it.

    `carried` is how a patch that does not fit was laid in.
    """

    folder: Path
    record: EditRecord
    outcome: Literal["created", "unchanged"]
    files: tuple[str, ...]
    carried: CarriedPatch | None = None

    @property
    def later(self) -> tuple[str, ...]:
        return self.record.later


def open_edit(
    context: Context, patch_id: str, vllm: str | None, recipe: str | None, checkout: Path | None
) -> OpenedEdit:
    """Make a checkout to edit a patch in.

    Raises:
        UsageError: the patch is not needed there, or the folder holds something else.
        VpatchError: the source cannot be read, or the checkout cannot be written.
    """
    selection = selected(context, patch_id, vllm, recipe)
    target = real_folder(checkout) if checkout else place_of(context, patch_id)
    with context.tree(selection.spec, selection.expected_digest) as tree:
        known = _known(target, patch_id, LockedPin.model_validate(vars(tree.pin)))
        if known is not None:
            return OpenedEdit(target, known, "unchanged", ())
        if checkout is None:
            hide_from_git(context.checkouts)
        series = planned_series(context, selection.patches, patch_id, tree)
        opening = _opening(context, selection.patches, series)
        with CheckoutTransaction(target, tree, context.progress) as transaction:
            record = _write(context, transaction, series, selection.recipe, opening)
    return OpenedEdit(target, record, "created", tuple(sorted(opening.files)), opening.carried)


@dataclass(frozen=True)
class AbortedEdit:
    """A checkout that is gone, and its patch; None for a series.

    `diff` has what somebody changed there; None if that is nothing.
    """

    patch: str | None
    folder: Path
    diff: Path | None


def abort_edit(context: Context, patch_id: str | None, checkout: Path | None) -> AbortedEdit:
    """Remove the checkout in which a patch or a series is edited. A diff keeps what was changed.

    Raises:
        UsageError: there is none, or there are several.
    """
    folder = find_edit(context, patch_id, checkout)
    with lock_target(folder, context.progress):
        # Another run may have ended the edit meanwhile.
        find_edit(context, patch_id, checkout)
        refuse_own_work(folder)
        return _aborted(context, patch_id, folder)


def _aborted(context: Context, patch_id: str | None, folder: Path) -> AbortedEdit:
    series = read_series_record(folder)
    if patch_id is None and series is not None:
        # A killed refresh may have written some patches. Those that somebody changed since stay.
        with suppress(UsageError):
            series = finish(context, folder, series)
        diff = _saved_diff(folder, series.tip)
        remove_checkout(folder)
        return AbortedEdit(None, folder, diff)
    record = read_record(folder)
    if record is None or (patch_id is not None and record.patch != patch_id):
        raise _other_patch(folder, record)
    diff = _saved_diff(folder, record.patched)
    remove_checkout(folder)
    return AbortedEdit(record.patch, folder, diff)


def _saved_diff(folder: Path, commit: str) -> Path | None:
    """Write how a work tree differs from a commit to a new file beside it; None if it does not."""
    with opened_checkout(folder) as repo:
        diff = git.diff_of_work_tree(repo, commit)
    if not diff:
        return None
    names = (f"{folder.name}{number}.diff" for number in chain([""], map("-{}".format, count(2))))
    file = next(path for name in names if not (path := folder.with_name(name)).exists())
    file.write_bytes(diff)
    return file


def ended(folder: Path, change: SourceChange, result: RefreshedPatch) -> RefreshedPatch:
    """Remove a checkout, unless it has what is in no patch."""
    reasons = removed_unless_kept(folder, change)
    return replace(result, checkout=folder, kept_for=reasons) if reasons else result


def removed_unless_kept(folder: Path, change: SourceChange) -> tuple[str, ...]:
    """Remove a checkout, unless it has what is in no patch: return that, a sentence each."""
    reasons = (*left_out_of(change), *changed_since(folder, change.files))
    if not reasons:
        remove_checkout(folder)
    return reasons


def remove_checkout(folder: Path) -> None:
    """Remove a checkout: at every moment it is there wholly, or not at all."""
    with staging_folder(folder.parent, folder.name) as staging, uninterrupted():
        gone = staging / "gone"
        folder.rename(gone)
        remove(gone)


def _known(target: Path, patch_id: str, source: LockedPin) -> EditRecord | None:
    """The record of a checkout that is there.

    Raises:
        UsageError: another patch or release is edited there, or it is something else.
    """
    record = read_record(target)
    if record is None:
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise occupied(target)
        return None
    if (record.patch, record.source.digest) != (patch_id, source.digest):
        raise _other_patch(target, record)
    return record


def occupied(target: Path) -> WrongTargetError:
    """What to say of a folder that holds something else."""
    return WrongTargetError(
        "is not empty" if target.is_dir() else "is not a folder",
        where=str(target),
        hint="name a new folder with --checkout: vpatch edit overwrites nothing",
        code="checkout.not-empty",
    )


def _other_patch(target: Path, record: EditRecord | None) -> UsageError:
    what = "nothing" if record is None else record.patch
    release = "" if record is None else f" on {record.source.version or record.source.origin}"
    return UsageError(
        f"the checkout is for {what}{release}",
        where=str(target),
        hint=f"run vpatch refresh {what} or vpatch edit --abort {what} first, or name another "
        "folder with --checkout",
        code="edit.other-patch",
    )


@dataclass(frozen=True)
class _Opening:
    """What the work tree has of the patch."""

    files: Mapping[str, bytes]
    carried: CarriedPatch | None


def _opening(context: Context, patches: Sequence[Patch], series: Series) -> _Opening:
    decision = series.decision
    if decision.state is State.NEEDED:
        files = {path: change.after for path, change in decision.changes.items()}
        return _Opening(files, None)
    if not may_be_carried(decision, series.tree.pin):
        _refuse_not_needed(context, decision, series.tree.pin.label)
    if series.patch.codemods:
        context.require_trust([series.patch])
    carried_patch = carried(context, patches, series)
    return _Opening(carried_patch.laid.files, carried_patch)


def _refuse_not_needed(context: Context, decision: Decision, label: str) -> None:
    if decision.state is State.UNTRUSTED:
        context.require_trust([decision.patch])
    raise UsageError(
        f"the patch {decision.patch.id!r} is {decision.state} on {label}: {decision.reason}",
        hint="name a release that the patch applies to: vpatch status shows which",
        code="edit.not-needed",
    )


def _write(
    context: Context,
    transaction: CheckoutTransaction,
    series: Series,
    recipe: str | None,
    opening: _Opening,
) -> EditRecord:
    with transaction.writing():
        task = context.progress.start(f"Writing {transaction.target}")
        folder, base = transaction.repository()
        change = NewCommit(f"{series.patch.id}: as it was before the edit", dict(opening.files))
        commits = git.add_commits(folder, base, [*series.commits_below, change])
        below = commits[-2] if len(commits) > 1 else base
        git.check_out(folder, git.PATCHED_BRANCH)
        git.keep_in_work_tree(folder, below)
        record = EditRecord(
            patch=series.patch.id,
            source=LockedPin.model_validate(vars(series.tree.pin)),
            root=context.project.folder,
            below=below,
            patched=commits[-1],
            earlier={one.id: one.digest for one in series.earlier},
            later=tuple(one.id for one in series.later),
            recipe=recipe,
            carried=_carried_record(series, opening.carried),
        )
        record.write(folder)
        if opening.carried is not None:
            (folder / CARRIED_DIFF).write_bytes(opening.carried.diff)
        put_into_empty(transaction)
        task.done()
    return record


def put_into_empty(transaction: CheckoutTransaction) -> None:
    """Put a new checkout into its place.

    Raises:
        WrongTargetError: something else is there.
    """
    with uninterrupted():
        try:
            transaction.put_into_empty()
        except OSError as error:
            if error.errno in _OCCUPIED:
                raise occupied(transaction.target) from error
            raise


def _carried_record(series: Series, one: CarriedPatch | None) -> CarriedRecord | None:
    if one is None:
        return None
    text = (series.patch.folder / DECLARATION).read_bytes().decode()
    return CarriedRecord(
        release=one.release,
        edits=digest_of_edits(text),
        start=one.start,
        predicates=dict(one.predicates),
    )
