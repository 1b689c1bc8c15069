"""Files of a checkpoint, replaced so that there is no moment with half of one."""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import contextmanager
from functools import reduce
from itertools import chain, count
from operator import getitem
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from vpatch.checkpoint.errors import CheckpointUnavailableError
from vpatch.checkpoint.files import no_such_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pydantic import JsonValue

ORIGINAL = ".orig"
_INDENT = re.compile(rb"^\{\n( +|\t)")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Let no other vpatch write to a checkpoint meanwhile.

    Raises:
        UsageError: there is no such folder.
        CheckpointUnavailableError: one does already, or the folder cannot be written to.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise no_such_folder(folder) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CheckpointUnavailableError(
                "another vpatch is writing to it",
                where=str(folder),
                hint="wait until it is done",
                code="checkpoint.in-use",
            ) from error
        except OSError:
            pass  # a file system without locks: whoever has one there works on it alone
        with _report_unwritable(folder):
            yield
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a new file to write, which takes a path's place at the end, and not before.

    What is at the path may be a link into a cache that others share: it is replaced, and not
    written through. After an error the path is as it was.
    """
    new = part_of(path)
    # A child of a killed run may still write to the old one; and it may be a link.
    if os.path.lexists(new):
        new.unlink()
    try:
        with new.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync_folder(path.parent)
    finally:
        new.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """Return where a file is written before it takes its place."""
    return path.with_name(f".{path.name}.vpatch")


def as_json(path: Path, document: dict[str, JsonValue]) -> bytes:
    """Return the bytes of a JSON file that takes another's place, indented as that is."""
    indent: str | int = 2
    if path.exists() and (match := _INDENT.match(path.read_bytes())):
        indent = match[1].decode()
    return f"{json.dumps(document, indent=indent, ensure_ascii=False)}\n".encode()


def replace_json(path: Path, document: dict[str, JsonValue]) -> None:
    """Write a JSON file in another's place, indented as that was."""
    with replacing(path) as file:
        file.write(as_json(path, document))


def set_values(config: dict[str, JsonValue], values: Mapping[tuple[str, ...], JsonValue]) -> None:
    """Set values of a config, each by the way to it."""
    for way, value in values.items():
        holder_of(config, way)[way[-1]] = value


def holder_of(config: dict[str, JsonValue], way: tuple[str, ...]) -> Any:
    """Return what of a config has the last key of a way."""
    return reduce(getitem, way[:-1], cast("Any", config))


def free_path(path: Path) -> Path:
    """Return the path, or NAME-2 and so on with its suffix where that is taken."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(one for one in chain([path], others) if not os.path.lexists(one))


def back_up(path: Path) -> Path:
    """Keep a copy of a file beside it, where `place_of_copy` says."""
    copy = place_of_copy(path)
    if not copy.exists():
        with replacing(copy) as file:
            file.write(path.read_bytes())
    return copy


def place_of_copy(path: Path) -> Path:
    """Return NAME.orig, or NAME.orig.2 and so on where that is taken.

    A copy with the same bytes that is there already is enough.
    """
    content = path.read_bytes()
    return next(
        copy
        for copy in numbered(path.with_name(f"{path.name}{ORIGINAL}"))
        if not os.path.lexists(copy) or (copy.is_file() and copy.read_bytes() == content)
    )


def numbered(path: Path) -> Iterator[Path]:
    """Yield the path, then PATH.2 and so on."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.name}.{number}")


@contextmanager
def _report_unwritable(folder: Path) -> Iterator[None]:
    """Say which file the system would not let us write."""
    try:
        yield
    except OSError as error:
        raise CheckpointUnavailableError(
            f"it cannot be written to: {error.strerror or error}",
            where=str(error.filename or folder),
            hint="free space, or correct the permissions, and run the command again",
            code="checkpoint.unwritable",
        ) from error


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
