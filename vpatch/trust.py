"""Which code of projects may run: these bytes, in this place, as the user allowed it.

What came with the installed vpatch is trusted. All else is a project's, and is trusted if the
user's own folder has a record of its place and its digest. A record is a file of its own, written
by one rename: processes that write at the same time lose nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
import tempfile
import weakref
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs

from vpatch.errors import UsageError, VpatchError
from vpatch.foreign import LARGEST_BESIDE, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

State = Literal["shipped", "trusted", "changed", "not trusted"]

# Python never reads what is in here: trusted code runs from a copy without it.
# Of a path and a digest.
_LARGEST_RECORD = 64_000
_BYTECODE = "__pycache__"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(VpatchError):
    """Code of a project that the user has not trusted would have to run."""


@dataclass(frozen=True)
class Record:
    """What the user trusts: a folder or file by its digest, or a host by its name."""

    kind: Literal["path", "host"]
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
        UsageError: something in it is no plain file, so that nobody can say what it holds.
    """
    if not path.is_dir():
        return Content({path.name: _read(path)})
    found = {}
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != _BYTECODE)
        for name in [*names, *(one for one in folders if Path(parent, one).is_symlink())]:
            file = Path(parent, name)
            found[file.relative_to(path).as_posix()] = _read(file)
    return Content(found)


def _read(file: Path) -> bytes:
    try:
        if stat.S_ISREG(file.lstat().st_mode):
            return read_file(file, LARGEST_BESIDE)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(file),
            todo="correct its permissions, or remove it",
        ) from error
    raise UsageError(
        "is no plain file, so nobody can say what it holds",
        where=str(file),
        todo="put the file itself there, not a link to it, or remove it",
    )


def default_folder() -> Path:
    """Return the user's own folder of records; a project cannot choose it."""
    return platformdirs.user_data_path("vpatch") / "trust"


class Store:
    """The records in the user's folder, which only the user may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, kind: Literal["path", "host"], name: str) -> Record | None:
        self._refuse_others()
        return _load(self._file(kind, name))

    def add(self, kind: Literal["path", "host"], name: str, digest: str) -> Record:
        try:
            return self._added(kind, name, digest)
        except OSError as error:
            raise VpatchError(
                f"what you trust cannot be recorded: {error.strerror}",
                where=str(self._folder),
                todo="free space or correct the permissions; this record was not made",
            ) from error

    def _added(self, kind: Literal["path", "host"], name: str, digest: str) -> Record:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._refuse_others()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        record = Record(kind, name, digest, since)
        # mkstemp makes it readable by its owner alone.
        descriptor, part = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(asdict(record), file)
            Path(part).replace(self._file(kind, name))
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        return record

    def remove(self, kind: Literal["path", "host"], name: str) -> bool:
        """Forget a record; say whether there was one."""
        self._refuse_others()
        try:
            self._file(kind, name).unlink()
        except FileNotFoundError:
            return False
        return True

    def __iter__(self) -> Iterator[Record]:
        self._refuse_others()
        files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        found = [record for file in files if (record := _load(file)) is not None]
        return iter(sorted(found, key=lambda record: (record.kind, record.name)))

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
            "this folder says what you trust, and others can write it",
            where=str(self._folder),
            todo=f"look at what is in it, then: chmod 700 {shlex.quote(str(self._folder))}",
        )


def _load(file: Path) -> Record | None:
    try:
        record = Record(**parse_json(read_file(file, _LARGEST_RECORD)))
    except (OSError, ValueError, TypeError):
        return None  # not there, or cut off: nothing is trusted by it
    return record if all(isinstance(value, str) for value in asdict(record).values()) else None


class Trust:
    """Decides what may run. `everything` is for --trust; `shipped` has the library's folders."""

    def __init__(
        self, store: Store | None, *, shipped: tuple[Path, ...] = (), everything: bool = False
    ) -> None:
        self.store = store
        self._shipped = shipped
        self._everything = everything
        self._copies: dict[tuple[Path, str | None], Path] = {}

    def state(self, path: Path, content: Content | None = None) -> State:
        """Say whether a patch's folder, or a recipe's or target's file, is trusted, and why."""
        if self._is_installed(path):
            return "shipped"
        content = content or content_of(path)
        for folder in self._shipped:
            theirs = folder / path.name
            if theirs.exists() and content_of(theirs).digest == content.digest:
                return "shipped"
        record = self.store.find("path", str(path.resolve())) if self.store else None
        if record is None:
            return "not trusted"
        return "trusted" if record.digest == content.digest else "changed"

    def records(self) -> list[Record]:
        return list(self.store) if self.store else []

    def require(self, path: Path, content: Content | None = None) -> None:
        """Refuse to go on where something is not trusted.

        Raises:
            UntrustedError: it is not; with the command that trusts it.
        """
        state = "trusted" if self._everything else self.state(path, content)
        if state in {"shipped", "trusted"}:
            return
        since = "it changed since you trusted it" if state == "changed" else "you did not trust it"
        raise UntrustedError(
            f"its code is not run: {since}",
            where=_short(path),
            todo=f"read every file there, then: vpatch trust {shlex.quote(_short(path))}",
        )

    def runnable(self, folder: Path, file: Path, source: bytes) -> Path:
        """Return from where a file of a patch may run, whose bytes are at hand already.

        A project's code runs from a private copy of exactly those bytes that are trusted: nothing
        that changes meanwhile, lies elsewhere in the project, or is old bytecode, gets in.

        Raises:
            UntrustedError: the patch's folder is not trusted.
        """
        name = file.relative_to(folder)
        if self._is_installed(folder):
            return file
        return self._copied(folder, (name.as_posix(), source)) / name

    def copy_of(self, folder: Path) -> Path:
        """Return a private copy of a patch's trusted folder; see `runnable`."""
        return folder if self._is_installed(folder) else self._copied(folder, None)

    def _copied(self, folder: Path, used: tuple[str, bytes] | None) -> Path:
        key = (folder.resolve(), hashlib.sha256(used[1]).hexdigest() if used else None)
        if key not in self._copies:
            content = content_of(folder)
            if used is not None and content.files.get(used[0]) != used[1]:
                raise UntrustedError(
                    f"{used[0]} changed while it was read",
                    where=str(folder),
                    todo="run the command again when nothing writes there",
                )
            self.require(folder, content)
            self._copies[key] = self._write(folder.name, content)
        return self._copies[key]

    def _write(self, name: str, content: Content) -> Path:
        room = tempfile.mkdtemp(prefix="vpatch-")
        weakref.finalize(self, shutil.rmtree, room, ignore_errors=True)
        copy = Path(room, name)
        for path, data in content.files.items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(data)
        return copy

    def _is_installed(self, path: Path) -> bool:
        return path.resolve().parent in self._shipped


def _short(path: Path) -> str:
    """A path as a user would type it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# Where nobody says what is trusted, nothing of a project is; for tests and scripts, everything.
NOTHING = Trust(None)
EVERYTHING = Trust(None, everything=True)
