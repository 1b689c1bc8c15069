"""A checkout in which a patch is edited knows which patch that is, and what it began with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vpatch.checkout.lockfile import LockedPin
from vpatch.checkout.record_file import read_record_file
from vpatch.commands.edit.absorb.record import (
    SERIES_FOLDER,
    place_of_series,
    read_series_record,
)
from vpatch.errors import UsageError, VpatchError

if TYPE_CHECKING:
    from vpatch.workspace.context import Context

_RECORD = Path(".git", "vpatch-edit.json")
# The whole change of a patch that is carried over, as it is in the release that it fits.
CARRIED_DIFF = Path(".git", "vpatch-carried.diff")
_PREFIX = "edit-"
_Commit = Annotated[str, Field(pattern=r"\A[0-9a-f]{40}\z")]


class CarriedRecord(BaseModel):
    """What a patch that does not fit a release is carried over from.

    Attributes:
        release: the version of the release that it fits.
        edits: a digest of its edits and variants.
        start: the edits that a new variant begins with.
        predicates: `concerns` and `effect` in the names of the release of the checkout.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str
    edits: str
    start: tuple[dict[str, Any], ...]
    predicates: dict[str, dict[str, Any]] = {}


class EditRecord(BaseModel):
    """What a checkout is for.

    Attributes:
        patch: the id of the patch.
        source: the tree; `root` is the folder that a relative path in it is seen from.
        below: the commit that the change of the patch is on top of.
        patched: a commit with the change, as it was when the checkout was made.
        earlier: the patches below, in order, with their digests.
        later: those of the series that come behind the patch.
        carried: where the change comes from, if the patch does not fit the tree.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    patch: str
    source: LockedPin
    root: Path
    below: _Commit
    patched: _Commit
    earlier: dict[str, str]
    later: tuple[str, ...]
    recipe: str | None
    carried: CarriedRecord | None = None

    def write(self, folder: Path) -> None:
        text = self.model_dump_json(indent=2) + "\n"
        (folder / _RECORD).write_text(text, encoding="utf-8")


def read_record(folder: Path) -> EditRecord | None:
    """Read which patch is edited in a folder; None where none is.

    Raises:
        VpatchError: the record cannot be read, or it is damaged.
    """
    file = folder / _RECORD
    return read_record_file(
        file,
        EditRecord,
        lambda reason: VpatchError(
            f"does not say which patch is edited here: {reason}",
            where=str(file),
            hint="move the folder away, and run vpatch edit again",
            code="edit.damaged-record",
        ),
    )


def place_of(context: Context, patch_id: str) -> Path:
    """The folder in which a patch is edited, if nobody names another one."""
    return context.checkouts / f"{_PREFIX}{patch_id}"


def find_edit(context: Context, patch_id: str | None, checkout: Path | None) -> Path:
    """The folder in which a patch or a series is edited: that of `patch_id`, or the only one.

    Raises:
        UsageError: there is none, or there are several.
    """
    if checkout is not None:
        folders = [checkout]
    elif patch_id is not None:
        folders = [place_of(context, patch_id)]
    else:
        folders = [place_of_series(context), *sorted(context.checkouts.glob(f"{_PREFIX}*"))]
    folders = [
        folder
        for folder in folders
        if read_series_record(folder) is not None or read_record(folder) is not None
    ]
    if len(folders) == 1:
        return folders[0]
    series = place_of_series(context)
    open_one = None if checkout is not None or patch_id is None else read_series_record(series)
    if not folders and open_one is not None and patch_id in open_one.patches:
        raise UsageError(
            f"the patch {patch_id!r} is edited with its series",
            where=str(series),
            hint="run vpatch refresh, which puts each change into its patch",
            code="edit.in-series",
        )
    which = f"the patch {patch_id!r}" if patch_id else "a patch"
    if not folders:
        raise UsageError(
            f"no checkout is there in which {which} is edited",
            where=None if checkout is None else str(checkout),
            hint=f"run vpatch edit {patch_id or 'ID'} first",
            code="edit.not-begun",
        )
    names = [
        "a series" if folder.name == SERIES_FOLDER else folder.name.removeprefix(_PREFIX)
        for folder in folders
    ]
    raise UsageError(
        f"several patches are edited: {', '.join(names)}",
        hint="name one of them, or the folder of the series with --checkout",
        code="edit.several",
    )
