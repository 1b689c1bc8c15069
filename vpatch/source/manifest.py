"""What files a tree holds, with the digest of each."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from vpatch.errors import VpatchError
from vpatch.git.files import SYMLINK
from vpatch.util.untrusted import LARGEST_TREE, plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vpatch.git.files import SourceFile


class SourcePathError(VpatchError):
    """A source has a file that no checkout should have: by its name, or as a link."""

    code = "source.unsafe-path"


class FileRecord(NamedTuple):
    """A file of a tree. The mode is git's: one of the three above."""

    path: str
    mode: int
    size: int
    sha256: str


def record_of(file: SourceFile) -> FileRecord:
    return FileRecord(file.path, file.mode, len(file.data), hashlib.sha256(file.data).hexdigest())


def store(files: Iterable[SourceFile], into: Path) -> Iterator[FileRecord]:
    """Write `files` below `into` one by one.

    A symbolic link becomes a plain file with its target as text, so nothing below `into` can ever
    lead out of it.

    Raises:
        VpatchError: a file cannot be in a checkout, or all of them are far too large.
    """
    parents: set[str] = set()
    size = 0
    for file in files:
        size += len(file.data)
        if size > LARGEST_TREE:
            raise VpatchError(
                f"the source has more than {LARGEST_TREE} bytes of text",
                where=file.path,
                hint="do not trust it: a little on disk may be much once it is unpacked",
                code="source.unsafe-archive",
            )
        _check_path(file.path)
        if file.mode == SYMLINK:
            refuse_leaving(file)
        target = f"{into}/{file.path}"
        parent = target.rpartition("/")[0]
        if parent not in parents:
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103 - pathlib costs a third of the run
            parents.add(parent)
        with open(target, "xb") as stream:  # noqa: PTH123 - as above
            stream.write(file.data)
        yield record_of(file)


def _check_path(path: str) -> None:
    try:
        plain_path(path)
    except ValueError as error:
        raise SourcePathError(
            f"the source has a file that vpatch cannot use: {error}",
            hint="rename or remove it in the source",
        ) from error


def refuse_leaving(link: SourceFile) -> None:
    """Refuse a symbolic link that leads out of its tree: a checkout would have it.

    Raises:
        SourcePathError: it does.
    """
    target = os.fsdecode(link.data)
    place = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), target))
    if target.startswith("/") or place == ".." or place.startswith("../"):
        raise SourcePathError(
            f"is a symbolic link to {target!r}, which is not in the tree",
            where=link.path,
            hint="remove the link, or let git ignore it, or take another source",
        )


def dump(records: Iterable[FileRecord]) -> bytes:
    return json.dumps(sorted(records)).encode()


def load(data: bytes) -> list[FileRecord]:
    """Read what `dump` wrote; anything else raises ValueError or TypeError."""
    return list(map(FileRecord._make, json.loads(data)))


def content_digest(records: Iterable[FileRecord]) -> str:
    """Digest paths, modes and contents, whatever order the records come in."""
    digest = hashlib.sha256()
    for record in sorted(records):
        digest.update(f"{record.mode:o} {record.sha256} ".encode())
        digest.update(os.fsencode(record.path) + b"\0")
    return digest.hexdigest()
