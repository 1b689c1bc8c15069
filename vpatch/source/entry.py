"""A tree in the cache: sealed when it was made, verified whenever it is read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Self

from vpatch.errors import UnavailableError, VpatchError
from vpatch.git.files import SYMLINK, SourceFile
from vpatch.source import base, manifest
from vpatch.source.tree import LOCK_FILE, Pin
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from vpatch.progress import Progress
    from vpatch.source.manifest import FileRecord
    from vpatch.util.filelock import FileLock

FILES = "files"
_SEAL = "seal.json"
_MANIFEST = "manifest.json"
# Left by a reader that finds a damage which the check at opening does not look for.
_DAMAGED = "damaged"


class DamagedEntry(UnavailableError):
    """A cache entry is not what it was when it was made."""

    code = "source.damaged-cache-entry"

    def __init__(self, entry: Path, path: str, found: str) -> None:
        super().__init__(
            f"the cached tree {entry.name} is damaged: {path} {found}",
            where=str(entry),
            hint="run the command again without --offline, to fetch the tree again",
        )


@dataclass(frozen=True, eq=False)
class CachedTree:
    """Implements `Tree`. It holds the entry's shared lock until it is closed.

    `package_files` has the bytes of every .py file of the importable package, verified.
    """

    pin: Pin
    folder: Path
    records: Mapping[str, FileRecord]
    package_files: Mapping[str, bytes]
    carried: frozenset[str]
    lock: FileLock
    undo: ExitStack = field(default_factory=ExitStack)

    @property
    def files(self) -> Path:
        """The folder that holds the tree's files as they are: for others' use, and not verified."""
        return self.folder / FILES

    @cached_property
    def links(self) -> frozenset[str]:
        return frozenset(path for path, one in self.records.items() if one.mode == SYMLINK)

    @property
    def is_private(self) -> bool:
        """Whether only the user may read it; the same holds for what is made of it."""
        return not self.folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)

    def paths(self) -> list[str]:
        return [path for path, record in self.records.items() if record.mode != SYMLINK]

    def read(self, path: str) -> bytes:
        known = self.package_files.get(path)
        return self._read_verified(self.records[path]) if known is None else known

    def base_repository(self, progress: Progress) -> tuple[Path, str]:
        """Return a bare repository with this tree as its one commit, and that commit's id."""
        return base.base_repository(
            self.folder, self._all_files, _base_message(self.pin), progress, self.undo
        )

    def close(self) -> None:
        self.undo.close()
        self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _all_files(self) -> Iterator[SourceFile]:
        for path, record in self.records.items():
            if path == LOCK_FILE:
                continue  # not source: the checkout that is made of this tree gets its own
            data = self.package_files.get(path)
            if data is None:
                data = self._read_verified(record)
            yield SourceFile(path, record.mode, data)

    def _read_verified(self, record: FileRecord) -> bytes:
        try:
            return _read_verified(self.folder, record)
        except DamagedEntry:
            with suppress(OSError):  # the cache may be read-only
                (self.folder / _DAMAGED).touch()
            raise


def seal(folder: Path, pin: Pin, records: list[FileRecord]) -> None:
    """Complete an entry whose files are in place."""
    data = manifest.dump(records)
    (folder / _MANIFEST).write_bytes(data)
    content = {"manifest": hashlib.sha256(data).hexdigest(), "pin": asdict(pin)}
    (folder / _SEAL).write_text(json.dumps(content), encoding="utf-8")


def read_pin(folder: Path) -> Pin | None:
    """Return the pin of an entry, or None where its seal cannot be read."""
    try:
        return Pin(**json.loads((folder / _SEAL).read_bytes())["pin"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load(folder: Path, lock: FileLock) -> CachedTree:
    """Open an entry and verify it: each file's presence and size, the package's code in full.

    Raises DamagedEntry.
    """
    pin = read_pin(folder)
    if pin is None:
        raise DamagedEntry(folder, _SEAL, "cannot be read")
    records = _read_manifest(folder)
    if (folder / _DAMAGED).exists():
        raise DamagedEntry(folder, "a file", "was found damaged by an earlier run")
    _check_sizes(folder, records)
    wanted = _package_sources(pin.tree, records)
    package_files = {path: _read_verified(folder, records[path]) for path in wanted}
    return CachedTree(pin, folder, records, package_files, _carried(folder, records), lock)


def _read_manifest(folder: Path) -> dict[str, FileRecord]:
    try:
        data = (folder / _MANIFEST).read_bytes()
        sealed = json.loads((folder / _SEAL).read_bytes())["manifest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedEntry(folder, _MANIFEST, "cannot be read") from error
    if hashlib.sha256(data).hexdigest() != sealed:
        raise DamagedEntry(folder, _MANIFEST, "does not have the contents that it was made with")
    return {record.path: record for record in manifest.load(data)}


def _check_sizes(folder: Path, records: Mapping[str, FileRecord]) -> None:
    files = f"{folder}/{FILES}"
    for path, record in records.items():
        try:
            size = os.stat(f"{files}/{path}", follow_symlinks=False).st_size  # noqa: PTH116 - speed
        except OSError as error:
            raise DamagedEntry(folder, path, "is missing") from error
        if size != record.size:
            raise DamagedEntry(folder, path, f"has {size} bytes instead of {record.size}")


def _read_verified(folder: Path, record: FileRecord) -> bytes:
    try:
        with open(f"{folder}/{FILES}/{record.path}", "rb", buffering=0) as file:  # noqa: PTH123
            data = file.read()
    except OSError as error:
        raise DamagedEntry(folder, record.path, "cannot be read") from error
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise DamagedEntry(folder, record.path, "does not have the contents that it was made with")
    return data


def _package_sources(tree: str, records: Mapping[str, FileRecord]) -> list[str]:
    sources = [path for path, record in records.items() if _is_source(record)]
    named = tree.replace("-", "_") + "/"
    own = [path for path in sources if path.startswith(named)]
    if own:
        return own
    return [path for path in sources if f"{path.partition('/')[0]}/__init__.py" in records]


def _is_source(record: FileRecord) -> bool:
    return record.path.endswith(".py") and "/" in record.path and record.mode != SYMLINK


def _carried(folder: Path, records: Mapping[str, FileRecord]) -> frozenset[str]:
    record = records.get(LOCK_FILE)
    if record is None:
        return frozenset()
    try:
        lock = parse_json(_read_verified(folder, record))
        earlier = (str(patch) for patch in lock.get("carried", ()))
        return frozenset([*(str(patch["id"]) for patch in lock["patches"]), *earlier])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise VpatchError(
            "vpatch.lock cannot be read, so it is not known which patches the tree carries",
            where=f"{folder.name}: vpatch.lock",
            hint="restore that file in the source, or remove it",
            code="source.unreadable-lock",
        ) from error


def version_in(tree: CachedTree) -> str | None:
    """Read the version from the PKG-INFO that a source archive has at its root."""
    if "PKG-INFO" not in tree.records:
        return None
    found = re.search(rb"^Version: *(\S+)", tree.read("PKG-INFO"), re.MULTILINE)
    return found[1].decode(errors="replace") if found else None


def _base_message(pin: Pin) -> str:
    """Name only what is the same for everyone who has these bytes: it decides the commit's id."""
    if pin.kind == "pypi":
        return f"{pin.label}\n\nArchive: {pin.origin}\nDigest: {pin.digest}\n"
    return f"{pin.tree}\n\nDigest: {pin.digest}\n"
