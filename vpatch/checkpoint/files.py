"""The files of a checkpoint: in a folder here, or wherever else they can be read by name."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING, Protocol

from vpatch.checkpoint.errors import REMEDY, CheckpointError, CheckpointUnavailableError
from vpatch.errors import UsageError
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

_LARGEST_JSON = 256_000_000


# ORG/NAME or ORG/NAME@REVISION, of the Hub.
REPOSITORY = re.compile(r"(?P<repository>\w[\w.-]*/[\w.-]+)(?:@(?P<revision>\S+))?")


class Files(Protocol):
    """What is read of a checkpoint. `root` is its folder, or what messages say in its place."""

    @property
    def root(self) -> Path: ...

    def names(self) -> frozenset[str]:
        """Name the files of the folder itself, without those of its folders."""

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""

    def start(self, name: str, count: int) -> bytes:
        """Return the first `count` bytes of a file, or all of a shorter one."""


class FolderFiles:
    """The files of a folder. All methods raise CheckpointUnavailableError if the disk does not."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> frozenset[str]:
        if not self.root.is_dir():
            raise no_such_folder(self.root)
        # A link that leads nowhere is not a file.
        return frozenset(path.name for path in self.root.iterdir() if path.exists())

    def size(self, name: str) -> int:
        path = self.root / name
        try:
            status = path.stat()
        except OSError as error:
            raise _unreadable(path, error) from error
        # Reading a pipe might never end.
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError("it is not a regular file", where=str(path), hint=REMEDY)
        return status.st_size

    def start(self, name: str, count: int) -> bytes:
        path = self.root / name
        try:
            with path.open("rb") as file:
                return file.read(count)
        except OSError as error:
            raise _unreadable(path, error) from error


def read_object(files: Files, name: str) -> dict[str, JsonValue]:
    """Read a file that has one JSON object.

    Raises:
        CheckpointError: it is not a file, or has something else.
        CheckpointUnavailableError: it cannot be read.
    """
    where = str(files.root / name)
    size = files.size(name)
    if size > _LARGEST_JSON:
        raise CheckpointError("it is too large", where=where, hint=REMEDY)
    try:
        document = parse_json(files.start(name, size))
    except ValueError as error:
        raise CheckpointError(f"it is not JSON: {error}", where=where, hint=REMEDY) from error
    if not isinstance(document, dict):
        raise CheckpointError("it is not a JSON object", where=where, hint=REMEDY)
    return document


def no_such_folder(folder: Path) -> UsageError:
    return UsageError(
        "there is no such folder",
        where=str(folder),
        hint="name the folder of a checkpoint",
        code="checkpoint.no-such-folder",
    )


def _unreadable(path: Path, error: OSError) -> CheckpointUnavailableError:
    return CheckpointUnavailableError(
        f"it cannot be read: {error.strerror or error}",
        where=str(path),
        hint="check the disk and the permissions",
    )
