"""A tree in the cache: sealed when it was made, each file verified when it is read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from email.parser import BytesHeaderParser
from fnmatch import fnmatch
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from packaging.utils import canonicalize_name

from vpatch.errors import UnavailableError, VpatchError
from vpatch.git.files import SYMLINK, SourceFile
from vpatch.source import base, manifest, searched, word_index
from vpatch.source.lazy_files import LazyFiles
from vpatch.source.tree import BUILT, LOCK_FILE, Pin
from vpatch.util.plain_records import as_record
from vpatch.util.untrusted import LARGEST_BESIDE, parse_json, read_file
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.progress import Progress
    from vpatch.source.manifest import FileRecord
    from vpatch.source.word_index import WordIndex
    from vpatch.util.filelock import FileLock

FILES = "files"
_SEAL = "seal.json"
_MANIFEST = "manifest.json"
# Left by a reader that finds a damage which the check at opening does not look for.
_DAMAGED = "damaged"


class DamagedEntry(UnavailableError):
    """A cache entry is not what it was when it was made."""

    code = "source.damaged-cache-entry"

    def __init__(self, entry: Path, path: str, damage: str) -> None:
        super().__init__(
            f"the cached tree {entry.name} is damaged: {path} {damage}",
            where=str(entry),
            hint="run the command again without --offline, to fetch the tree again",
        )


@dataclass(frozen=True, eq=False)
class CachedTree:
    """Implements `Tree`. It holds the entry's shared lock until it is closed.

    `package` are the paths of the .py files of the importable package, and `digest` is the
    manifest's. A file is verified when it is read. A damage that is found then is left for the next
    run, which makes the entry anew.
    """

    pin: Pin
    folder: Path
    records: Mapping[str, FileRecord]
    package: Sequence[str]
    digest: str
    carried: frozenset[str]
    lock: FileLock
    undo: ExitStack = field(default_factory=ExitStack)

    @property
    def files(self) -> Path:
        """The folder that holds the tree's files as they are: for others' use, and not verified."""
        return self.folder / FILES

    @cached_property
    def package_files(self) -> Mapping[str, bytes]:
        return LazyFiles(self.package, lambda path: self._read_verified(self.records[path]))

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
        if path in self.package_files:
            return self.package_files[path]
        return self._read_verified(self.records[path])

    def holding(self, word: bytes) -> frozenset[str]:
        if self._index is None:
            return searched.files_with_word(self.package_files, word)
        return word_index.files_with_word(self._index, self.package_files, word)

    def containing(self, text: bytes) -> frozenset[str]:
        if self._index is None:
            return searched.files_with_text(self.package_files, text)
        return word_index.files_with_text(self._index, self.package_files, text)

    def words(self) -> Iterable[bytes]:
        if self._index is None:
            return searched.words_of(self.package_files)
        return self._index.words()

    @cached_property
    def _index(self) -> WordIndex | None:
        key = word_index.key_of(self.digest, self.package)
        return word_index.load_or_make(self.folder, key, self.package_files)

    def base_repository(self, progress: Progress) -> tuple[Path, str]:
        """Return a bare repository with this tree as its one commit, and that commit's id."""
        return base.base_repository(
            self.folder, self.base_files, self.base_message, progress, self.undo
        )

    def close(self) -> None:
        self.undo.close()
        self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def base_files(self) -> Iterator[SourceFile]:
        """The files of the base commit; see `base_repository`."""
        for path, record in self.records.items():
            if path == LOCK_FILE:
                continue  # not source: the checkout that is made of this tree gets its own
            yield SourceFile(path, record.mode, self.read(path))

    @property
    def base_message(self) -> str:
        """What is the same for everyone who has these bytes: it decides the commit's id."""
        pin = self.pin
        if pin.kind == "pypi":
            return f"{pin.label}\n\nArchive: {pin.origin}\nDigest: {pin.digest}\n"
        return f"{pin.tree}\n\nDigest: {pin.digest}\n"

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
    digest = hashlib.sha256(data).hexdigest()
    by_path = {record.path: record for record in sorted(records)}
    package = _package_sources(pin.tree, by_path)
    # What was built is often only compared or copied: the first search in it makes its index.
    if pin.kind not in BUILT:
        # Not held: after this the tree is opened, and reads what it needs.
        files = LazyFiles(package, lambda path: _read_verified(folder, by_path[path]))
        word_index.write(folder, word_index.key_of(digest, package), files)
    content = {"manifest": digest, "pin": asdict(pin)}
    (folder / _SEAL).write_text(json.dumps(content), encoding="utf-8")


def read_pin(folder: Path) -> Pin | None:
    """Return the pin of an entry, or None where its seal cannot be read."""
    try:
        return as_record(Pin, _seal(folder)["pin"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _seal(folder: Path) -> Any:
    return parse_json(read_file(folder / _SEAL, LARGEST_BESIDE))


def load(folder: Path, lock: FileLock) -> CachedTree:
    """Open an entry and verify its manifest, and that each file is there and has its size.

    Raises DamagedEntry.
    """
    pin = read_pin(folder)
    if pin is None:
        raise DamagedEntry(folder, _SEAL, "cannot be read")
    records, digest = _read_manifest(folder)
    if (folder / _DAMAGED).exists():
        raise DamagedEntry(folder, "a file", "was found damaged by an earlier run")
    _check_sizes(folder, records)
    package = _package_sources(pin.tree, records)
    return CachedTree(pin, folder, records, package, digest, _carried_ids(folder, records), lock)


def _read_manifest(folder: Path) -> tuple[dict[str, FileRecord], str]:
    """Return the records and the manifest's digest."""
    try:
        data = (folder / _MANIFEST).read_bytes()
        sealed = _seal(folder)["manifest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedEntry(folder, _MANIFEST, "cannot be read") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != sealed:
        raise DamagedEntry(folder, _MANIFEST, "does not have the contents that it was made with")
    return {record.path: record for record in manifest.load(data)}, digest


def _check_sizes(folder: Path, records: Mapping[str, FileRecord]) -> None:
    path = FILES
    files = -1
    try:
        # From the folder itself: the system need not find it anew for each file.
        files = os.open(folder / FILES, os.O_RDONLY | os.O_DIRECTORY)
        for path, _, wanted, _ in records.values():
            size = os.stat(path, dir_fd=files, follow_symlinks=False).st_size
            if size != wanted:
                raise DamagedEntry(folder, path, f"has {size} bytes instead of {wanted}")
    except OSError as error:
        raise DamagedEntry(folder, path, "is missing") from error
    finally:
        if files >= 0:
            os.close(files)


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
    named = tree.replace("-", "_") + "/"
    own = [p for p, record in records.items() if p.startswith(named) and _is_source(record)]
    if own:
        return own
    sources = [path for path, record in records.items() if _is_source(record)]
    return [path for path in sources if f"{path.partition('/')[0]}/__init__.py" in records]


def _is_source(record: FileRecord) -> bool:
    return record.path.endswith(".py") and "/" in record.path and record.mode != SYMLINK


def _carried_ids(folder: Path, records: Mapping[str, FileRecord]) -> frozenset[str]:
    # `vpatch install` and `vpatch wheel` leave it beside the metadata.
    paths = (path for path in records if fnmatch(path, f"*.dist-info/{LOCK_FILE}"))
    record = records.get(LOCK_FILE) or records.get(next(paths, ""))
    if record is None:
        return frozenset()
    try:
        lock = parse_json(_read_verified(folder, record))
        earlier = (str(patch) for patch in lock.get("carried", ()))
        return frozenset([*(str(patch["id"]) for patch in lock["patches"]), *earlier])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise VpatchError(
            "vpatch.lock cannot be read, so it is not known which patches the tree carries",
            where=f"{folder.name}: {record.path}",
            hint="restore that file in the source, or remove it",
            code="source.unreadable-lock",
        ) from error


def distributions_in(tree: CachedTree) -> tuple[tuple[str, str], ...]:
    """Read the names and versions of the distributions whose metadata is in a built package."""
    metadata = [path for path in tree.records if fnmatch(path, "*.dist-info/METADATA")]
    heads = [BytesHeaderParser().parsebytes(tree.read(path)) for path in sorted(metadata)]
    return tuple((canonicalize_name(str(one["Name"])), str(one["Version"])) for one in heads)


def version_in(tree: CachedTree) -> str | None:
    """Read the version from the metadata of a source archive, or of an unpacked wheel."""
    package = tree.pin.tree.replace("-", "_")
    wheels = [path for path in tree.records if fnmatch(path, f"{package}-*.dist-info/METADATA")]
    metadata = "PKG-INFO" if "PKG-INFO" in tree.records else next(iter(wheels), None)
    if metadata is None:
        return None
    match = re.search(rb"^Version: *(\S+)", tree.read(metadata), re.MULTILINE)
    version = match[1].decode(errors="replace") if match else ""
    return version if read_version(version) else None
