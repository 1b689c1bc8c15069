"""What the user trusts: records of files by digest, and of folders and hosts by name.

They lie in the data folder of the user.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs

from vpatch.errors import UnavailableError, UsageError
from vpatch.util.home import in_home
from vpatch.util.plain_records import as_record
from vpatch.util.untrusted import LARGEST_BESIDE, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# Bytes; a record has a path and a digest.
_LARGEST_RECORD = 64_000
# Python never reads what is in here: trusted code runs from a copy without it.
_BYTECODE = "__pycache__"
# vpatch writes it into a patch's folder, and trusted code runs from a copy without it.
_RECORD = "shapes.json"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


Kind = Literal["path", "folder", "host"]


@dataclass(frozen=True)
class TrustRecord:
    """What the user trusts: a patch or file by its digest, a whole folder or a host by its name."""

    kind: Kind
    name: str
    digest: str
    since: str


@dataclass(frozen=True)
class Content:
    """The files of a folder, or of a file alone, by their paths in it."""

    files: Mapping[str, bytes]

    @property
    def digests(self) -> dict[str, str]:
        return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(self.files.items())}

    @property
    def digest(self) -> str:
        lines = "".join(f"{digest}  {path!r}\n" for path, digest in self.digests.items())
        return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def content_of(path: Path) -> Content:
    """Read all that trust in a patch's folder, or in a recipe's or target's file, is about.

    Raises:
        UsageError: a file in it cannot be read, or is not a regular file.
    """
    if not path.is_dir():
        return Content({path.name: _read(path)})
    files = {}
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != _BYTECODE)
        for name in [*names, *(one for one in folders if Path(parent, one).is_symlink())]:
            file = Path(parent, name)
            if file != path / _RECORD:
                files[file.relative_to(path).as_posix()] = _read(file)
    return Content(files)


def _read(file: Path) -> bytes:
    try:
        if stat.S_ISREG(file.lstat().st_mode):
            return read_file(file, LARGEST_BESIDE)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(file),
            hint="correct its permissions, or remove it",
            code="trust.unreadable-file",
        ) from error
    raise UsageError(
        "is not a regular file, so vpatch cannot record what it contains",
        where=str(file),
        hint="put the file itself there, not a link to it, or remove it",
        code="trust.unreadable-file",
    )


def default_folder() -> Path:
    """Return the user's own folder of records; a project cannot choose it."""
    return in_home(lambda: platformdirs.user_data_path("vpatch"), "your data") / "trust"


class Store:
    """The records in the user's folder, which only the user may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, kind: Kind, name: str) -> TrustRecord | None:
        self._refuse_others()
        return _load(self._file(kind, name))

    def folder_around(self, path: Path) -> Path | None:
        """Return the folder that has a real path in it, and that the user trusts for good."""
        folders = (path, *path.parents)
        return next((one for one in folders if self.find("folder", str(one)) is not None), None)

    def add(self, kind: Kind, name: str, digest: str) -> None:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            self._write(TrustRecord(kind, name, digest, since))
        except OSError as error:
            raise UnavailableError(
                f"your trust cannot be recorded: {error.strerror}",
                where=str(self._folder),
                hint="free space or correct the permissions; nothing was recorded",
                code="trust.unwritable-store",
            ) from error

    def _write(self, record: TrustRecord) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._refuse_others()
        # mkstemp makes it readable by its owner alone.
        descriptor, part = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(asdict(record), file)
            Path(part).replace(self._file(record.kind, record.name))
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def remove(self, kind: Kind, name: str) -> bool:
        """Forget a record; say whether there was one."""
        self._refuse_others()
        try:
            self._file(kind, name).unlink()
        except FileNotFoundError:
            return False
        return True

    def __iter__(self) -> Iterator[TrustRecord]:
        self._refuse_others()
        files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        records = [record for file in files if (record := _load(file)) is not None]
        return iter(sorted(records, key=lambda record: (record.kind, record.name)))

    def _file(self, kind: str, name: str) -> Path:
        key = hashlib.sha256(f"{kind}\0{name}".encode(errors="surrogateescape")).hexdigest()
        return self._folder / f"{key[:32]}.json"

    def _refuse_others(self) -> None:
        try:
            status = self._folder.lstat()
        except FileNotFoundError:
            return
        if (
            stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & _OTHERS_WRITE
        ):
            return
        raise UsageError(
            "others can write to this folder, which lists what you trust",
            where=str(self._folder),
            hint=f"look at what is in it, then: chmod 700 {shlex.quote(str(self._folder))}",
            code="trust.unsafe-store",
        )


def _load(file: Path) -> TrustRecord | None:
    try:
        return as_record(TrustRecord, parse_json(read_file(file, _LARGEST_RECORD)))
    except (OSError, ValueError):
        return None  # not there, or cut off: nothing is trusted by it
