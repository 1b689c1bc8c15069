"""A checkout of a plain tree, with nothing applied, which knows where it came from."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from vpatch.checkout.lockfile import LockedPin
from vpatch.checkout.record_file import read_record_file
from vpatch.checkout.transaction import TargetError, WrongTargetError
from vpatch.errors import VpatchError
from vpatch.git import checkout as git
from vpatch.git.found import opened_checkout
from vpatch.util.plural import listed
from vpatch.util.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from vpatch.checkout.transaction import CheckoutTransaction
    from vpatch.progress import Progress
    from vpatch.source.tree import Pin

# In the repository, where nothing imports, builds or cleans it.
_RECORD = Path(".git", "vpatch-source.json")
_SHOWN = 5
_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


class PlainCheckout(BaseModel):
    """Where a checkout came from.

    `base` is the commit of the tree as it was published. `root` is the folder that a relative path
    in `source` is seen from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    source: LockedPin
    base: Annotated[str, Field(pattern=r"\A[0-9a-f]{40}\z")]
    root: Path

    def is_of(self, pin: Pin) -> bool:
        """Whether it is of this source."""
        return (self.source.tree, self.source.digest) == (pin.tree, pin.digest)


def read_plain(folder: Path) -> PlainCheckout | None:
    """Read where a checkout came from; None for any other folder.

    Raises:
        VpatchError: the record cannot be read, or it is damaged.
    """
    file = folder / _RECORD
    return read_record_file(
        file,
        PlainCheckout,
        lambda reason: VpatchError(
            f"does not say where the checkout came from: {reason}",
            where=str(file),
            hint="remove the file, and name the release with --vllm",
            code="checkout.damaged-origin",
        ),
    )


def refuse_occupied(folder: Path) -> None:
    """Refuse a folder that is not empty, unless it is a plain checkout.

    Raises:
        WrongTargetError: it holds something else, or is a file.
    """
    is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free and read_plain(folder) is None:
        raise WrongTargetError(
            "is not empty" if folder.is_dir() else "is not a folder",
            where=str(folder),
            hint="name a new folder: vpatch source overwrites nothing",
            code="checkout.not-empty",
        )


def write_plain(transaction: CheckoutTransaction, root: Path, progress: Progress) -> bool:
    """Make a plain checkout of the tree of a transaction; whether that was necessary.

    Raises:
        TargetError: there is a plain checkout that was changed, or of another source.
        WrongTargetError: something else is there.
    """
    target, pin = transaction.target, transaction.tree.pin
    refuse_occupied(target)
    plain = read_plain(target)
    if plain is not None:
        _refuse_other(plain, target, pin)
        return False
    record = PlainCheckout(
        source=LockedPin.model_validate(vars(pin)), base=transaction.base, root=root
    )
    with transaction.writing():
        task = progress.start(f"Writing {target}")
        folder, base = transaction.repository()
        git.add_commits(folder, base, [])
        git.check_out(folder, git.PATCHED_BRANCH)
        text = record.model_dump_json(indent=2) + "\n"
        (folder / _RECORD).write_text(text, encoding="utf-8")
        with uninterrupted():
            try:
                transaction.put_into_empty()
            except OSError as error:
                if error.errno in _OCCUPIED:
                    refuse_occupied(target)
                raise
        task.done()
    return True


def _refuse_other(plain: PlainCheckout, folder: Path, pin: Pin) -> None:
    source = plain.source
    if not plain.is_of(pin):
        raise TargetError(
            f"is a checkout of {source.tree} {source.version or source.ref or source.origin}",
            where=str(folder),
            hint="name a new folder: vpatch source overwrites nothing",
            code="checkout.other-source",
        )
    with opened_checkout(folder) as repo:
        paths = [one.path for one in git.changed_paths(repo, plain.base)]
        paths += git.hidden_files(repo)
    if paths:
        raise TargetError(
            f"is this checkout, and has changes: {listed(paths, _SHOWN)}",
            where=str(folder),
            hint=f"run vpatch import {folder} to make a patch of them, or name a new folder",
            code="checkout.has-changes",
        )
