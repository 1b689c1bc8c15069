"""A checkout in which a whole series is edited knows what it began with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from vpatch.checkout.lockfile import LockedPin
from vpatch.checkout.record_file import read_record_file
from vpatch.errors import VpatchError
from vpatch.util.files import replace_file

if TYPE_CHECKING:
    from vpatch.workspace.context import Context

_RECORD = Path(".git", "vpatch-edit-series.json")
# Where the folders of changed patches wait, until all of them are in their places.
PENDING = Path(".git", "vpatch-absorbed")
# No patch is edited in a folder of this name: theirs have more behind it.
SERIES_FOLDER = "edit"
_Commit = Annotated[str, Field(pattern=r"\A[0-9a-f]{40}\z")]


class PendingPatch(BaseModel):
    """A patch whose folder is to be replaced: digests of the old and the new one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    old: str
    new: str
    trusted: bool


class PendingSeries(BaseModel):
    """What a refresh has decided to write: it is all there, or none of it.

    Attributes:
        folders: the patches that change.
        patches: all patches of the series with their new digests, in order.
        tip: the commit of the last one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    folders: dict[str, PendingPatch]
    patches: dict[str, str]
    tip: _Commit


class SeriesRecord(BaseModel):
    """What a checkout is for.

    Attributes:
        source: the tree; `root` is the folder that a relative path in it is seen from.
        recipe: the recipe with the series, if there is one.
        base: the commit of the tree without patches.
        tip: the commit of the last patch.
        patches: the patches in order, with their digests.
        pending: what a killed run has to finish.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    source: LockedPin
    root: Path
    recipe: str | None
    base: _Commit
    tip: _Commit
    patches: dict[str, str]
    pending: PendingSeries | None = None

    def write(self, folder: Path) -> None:
        """Write it in one step."""
        replace_file(folder / _RECORD, self.model_dump_json(indent=2) + "\n")


def read_series_record(folder: Path) -> SeriesRecord | None:
    """Read which series is edited in a folder; None where none is.

    Raises:
        VpatchError: the record cannot be read, or it is damaged.
    """
    file = folder / _RECORD
    return read_record_file(
        file,
        SeriesRecord,
        lambda reason: VpatchError(
            f"does not say which series is edited here: {reason}",
            where=str(file),
            hint="move the folder away, and run vpatch edit again",
            code="edit.damaged-record",
        ),
    )


def place_of_series(context: Context) -> Path:
    """The folder in which a series is edited, if nobody names another one."""
    return context.checkouts / SERIES_FOLDER
