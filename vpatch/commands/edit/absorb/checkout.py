"""A checkout with a whole series: a commit for each patch, and a clean work tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.commits import commits_of
from vpatch.checkout.lockfile import LockedPin
from vpatch.checkout.transaction import CheckoutTransaction
from vpatch.commands.edit.absorb.record import (
    SeriesRecord,
    place_of_series,
    read_series_record,
)
from vpatch.commands.edit.work_tree import occupied, put_into_empty
from vpatch.errors import UsageError
from vpatch.git import checkout as git
from vpatch.planning.plan import plan
from vpatch.planning.relations import order
from vpatch.workspace.checkout import hide_from_git, real_folder
from vpatch.workspace.selection import Request, Selection, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.library.patch import Patch
    from vpatch.planning.state import Plan
    from vpatch.source.entry import CachedTree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class OpenedSeries:
    """A checkout to edit a series in. `needed` are the patches that have a commit there."""

    folder: Path
    record: SeriesRecord
    outcome: Literal["created", "unchanged"]
    needed: tuple[str, ...]
    files: tuple[str, ...]


def open_series(
    context: Context, vllm: str | None, recipe: str | None, checkout: Path | None
) -> OpenedSeries:
    """Make a checkout to edit a series in.

    Raises:
        UsageError: it is not clear which series, or a patch of it stops.
        VpatchError: the source cannot be read, or the checkout cannot be written.
    """
    selection = _selected(context, vllm, recipe)
    target = real_folder(checkout) if checkout else place_of_series(context)
    with context.tree(selection.spec, selection.expected_digest) as tree:
        source = LockedPin.model_validate(vars(tree.pin))
        known = read_series_record(target)
        if known is not None:
            if known.source.digest != source.digest or known.recipe != selection.recipe:
                raise _other_series(target, known)
            return OpenedSeries(target, known, "unchanged", (), ())
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise occupied(target)
        if checkout is None:
            hide_from_git(context.checkouts)
        decided = plan(order(selection.patches), tree, answers=context.answers, shapes=False)
        _refuse_stopping(decided)
        record = _write(context, target, tree, decided, selection.recipe)
    needed = tuple(one.patch.id for one in decided.taken)
    files = sorted({path for one in decided.taken for path in one.changes})
    return OpenedSeries(target, record, "created", needed, tuple(files))


def patches_of_record(context: Context, folder: Path, record: SeriesRecord) -> list[Patch]:
    """The patches of a series that is edited, as they were when that began.

    Raises:
        UsageError: one changed since.
    """
    library = context.library
    present = library.load([one for one in record.patches if one in library.patches])
    digests = {one.id: one.digest for one in present}
    changed = [name for name, digest in record.patches.items() if digests.get(name) != digest]
    if changed:
        raise UsageError(
            f"{', '.join(changed)} changed since the edit began, and the work tree has it as "
            "it was",
            where=str(folder),
            hint="save your change (git diff), run vpatch edit --abort, and begin again",
            code="edit.series-changed",
        )
    return present


def _selected(context: Context, vllm: str | None, recipe: str | None) -> Selection:
    own = sorted(context.library.own_recipes)
    if vllm is None and recipe is None and len(own) == 1:
        recipe = own[0]
    (first, *_) = resolve(Request(vllm=vllm, recipe=recipe), context.library, unsettled=True)
    return first


def _refuse_stopping(decided: Plan) -> None:
    stopping = [one for one in decided.decisions if one.state.stops]
    if stopping:
        first = stopping[0]
        raise UsageError(
            f"{', '.join(one.patch.id for one in stopping)} cannot be applied to "
            f"{decided.pin.label}: {first.reason}",
            hint=f"settle this first, for instance with vpatch edit {first.patch.id}",
            code="edit.not-needed",
        )


def _write(
    context: Context, target: Path, tree: CachedTree, decided: Plan, recipe: str | None
) -> SeriesRecord:
    with (
        CheckoutTransaction(target, tree, context.progress) as transaction,
        transaction.writing(),
    ):
        task = context.progress.start(f"Writing {target}")
        folder, base = transaction.repository()
        commits = git.add_commits(folder, base, commits_of(decided))
        git.check_out(folder, git.PATCHED_BRANCH)
        record = SeriesRecord(
            source=LockedPin.model_validate(vars(tree.pin)),
            root=context.project.folder,
            recipe=recipe,
            base=base,
            tip=commits[-1] if commits else base,
            patches={one.patch.id: one.patch.digest for one in decided.decisions},
        )
        record.write(folder)
        put_into_empty(transaction)
        task.done()
    return record


def _other_series(target: Path, record: SeriesRecord) -> UsageError:
    release = record.source.version or record.source.origin
    return UsageError(
        f"the checkout is for the series {record.recipe or ''}".rstrip() + f" on {release}",
        where=str(target),
        hint="run vpatch refresh or vpatch edit --abort first, or name another folder with "
        "--checkout",
        code="edit.other-patch",
    )
