"""Records in the cache that can be had again: each is a file that begins with its digest."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vpatch.util.files import replace_file
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
# Of a record, and of all in a folder: most have some hundred bytes, a plan the files it changes.
LARGEST = 100 * MEGABYTE
_SUFFIX = ".json"


@dataclass(frozen=True)
class RecordStore:
    """The records in a folder of the cache, by their keys; those that were not used longest go.

    A reader never sees half a record, nor takes a damaged one. Most folders are this user's alone,
    as records may have contents of files, which may be private.
    """

    folder: Path
    is_private: bool = True

    def file(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def get(self, key: str, read: Callable[[Any], T]) -> T | None:
        """Return what `read` makes of a record; None where there is none that it can read."""
        file = self.file(key)
        try:
            digest, _, text = read_file(file, LARGEST).partition(b"\n")
            if hashlib.sha256(text).hexdigest() != digest.decode():
                return None
            record = read(parse_json(text))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
            return None  # never written, damaged, or of another vpatch
        with suppress(OSError):
            os.utime(file)  # by this, what is not used any more is told
        return record

    def put(self, key: str, record: object) -> None:
        """Keep a record as JSON; where nothing can be written, the next run makes it anew."""
        with suppress(OSError):
            self.write(key, record)

    def write(self, key: str, record: object) -> None:
        """Keep a record as `put` does.

        Raises:
            OSError: it cannot be written.
        """
        text = json.dumps(record)
        self.folder.mkdir(mode=0o700 if self.is_private else 0o777, parents=True, exist_ok=True)
        replace_file(self.file(key), f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        self._make_room()

    def _make_room(self) -> None:
        """Remove the records that were not used for longest, until the rest is small enough.

        Others may do the same, or read one that goes: it is as if it had never been there.
        """
        records = []
        with os.scandir(self.folder) as files:
            for file in files:
                with suppress(FileNotFoundError):
                    status = file.stat(follow_symlinks=False)
                    if file.name.endswith(_SUFFIX):
                        records.append((status.st_mtime_ns, status.st_size, file.path))
        size = sum(size for _, size, _ in records)
        for _, freed, path in sorted(records):
            if size <= LARGEST:
                break
            Path(path).unlink(missing_ok=True)
            size -= freed
