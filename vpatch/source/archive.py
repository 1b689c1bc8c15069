"""Source archives: their files, with everything refused that could write outside its folder."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Self

from vpatch.errors import VpatchError
from vpatch.git.files import EXECUTABLE, REGULAR, SourceFile
from vpatch.util.untrusted import LARGEST_FILE, LARGEST_TREE, MEGABYTE, plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.progress import Progress, Task

_LARGEST = LARGEST_TREE
_MOST_FILES = 200_000
# The name of a member that is too long for its header, for instance.
_LARGEST_EXTRA = MEGABYTE
_EXTRAS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_DAMAGE = (EOFError, gzip.BadGzipFile, tarfile.TarError, zlib.error)


class ArchiveError(VpatchError):
    """A source archive is damaged, or contains something that no source archive should."""

    code = "source.damaged-archive"


def read_archive(archive: Path, name: str, progress: Progress) -> Iterator[SourceFile]:
    """Yield the regular files of a .tar.gz, with paths relative to its one top folder."""
    task = progress.start(f"Unpacking {name}", total=archive.stat().st_size)
    try:
        with archive.open("rb") as raw, _Limited(name, raw) as unzipped:
            yield from _files(name, raw, unzipped, task)
            # The tar format ends before the gzip trailer does: only reading on checks the CRC.
            while unzipped.read(1 << 20):
                pass
    except _DAMAGE as error:
        raise ArchiveError(
            f"the archive is damaged: {error}",
            where=name,
            hint="the index serves a broken archive: use another index, or another version",
        ) from error
    finally:
        task.done()


def _files(name: str, raw: IO[bytes], unzipped: gzip.GzipFile, task: Task) -> Iterator[SourceFile]:
    guard = _Guard(name)
    with tarfile.open(fileobj=unzipped, mode="r|", errorlevel=2, tarinfo=_Member) as tar:
        seen = 0
        for member in tar:
            path = guard.admit(member)
            if path and member.isreg():
                stream = tar.extractfile(member)
                data = stream.read() if stream else b""
                yield SourceFile(path, EXECUTABLE if member.mode & 0o100 else REGULAR, data)
            task.advance(raw.tell() - seen)
            seen = raw.tell()
    if not guard.files:
        raise ArchiveError(
            "the archive has no files", where=name, hint="use another index, or another version"
        )


class _Limited(gzip.GzipFile):
    """Refuses to unpack without end: little on disk may be much in memory."""

    def __init__(self, name: str, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw)
        self._archive = name
        self._remaining = _LARGEST

    def read(self, size: int | None = -1) -> bytes:
        text = super().read(size)
        self._remaining -= len(text)
        if self._remaining < 0:
            raise _too_large(self._archive, f"it unpacks to more than {_LARGEST} bytes")
        return text


class _Member(tarfile.TarInfo):
    """A header, refused before what it announces is read into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _EXTRAS and not 0 <= member.size <= _LARGEST_EXTRA:
            raise _too_large("the archive", f"a header of it has {member.size} bytes")
        return member


def _too_large(archive: str, what: str) -> ArchiveError:
    return ArchiveError(
        what, where=archive, hint="do not trust this archive", code="source.unsafe-archive"
    )


class _Guard:
    """Remembers the members seen, as some dangers lie only in two members together."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self.top: str | None = None
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def admit(self, member: tarfile.TarInfo) -> str:
        """Return the path below the top folder ("" for that folder itself), or refuse."""
        parts = PurePosixPath(member.name).parts
        reason = _reason_to_refuse(member, parts)
        if reason:
            raise self._refusal(member, reason)
        if self.top is None:
            self.top = parts[0]
        elif parts[0] != self.top:
            raise self._refusal(member, f"it lies outside the archive's top folder {self.top}")
        if member.isreg() and len(parts) == 1:
            raise self._refusal(member, "it lies outside a top folder")
        path = "/".join(parts[1:])
        parents = {"/".join(parts[1:depth]) for depth in range(2, len(parts))}
        if path in self.files or (member.isreg() and path in self.folders):
            raise self._refusal(member, "the archive has it twice")
        if parents & self.files:
            raise self._refusal(member, "it lies below a file")
        self.folders |= parents if member.isreg() else {*parents, path}
        if member.isreg():
            self.files.add(path)
        if len(self.files) + len(self.folders) > _MOST_FILES:
            raise self._refusal(member, f"the archive has more than {_MOST_FILES} of them")
        return path

    def _refusal(self, member: tarfile.TarInfo, reason: str) -> ArchiveError:
        return ArchiveError(
            f"refusing to unpack member {member.name!r}: {reason}",
            where=self.archive,
            hint="do not trust this archive; compare it with the project's own release",
            code="source.unsafe-archive",
        )


def _reason_to_refuse(  # noqa: PLR0911 - a list of reasons
    member: tarfile.TarInfo, parts: tuple[str, ...]
) -> str | None:
    if not parts or parts[0].startswith("/"):
        return "its path is absolute or empty"
    if ".." in parts:
        return "its path has '..' in it"
    if any(part.lower() == ".git" for part in parts):
        return "it would become part of a git repository's own folder"
    try:
        plain_path("/".join(parts))
    except ValueError as error:
        return str(error)
    if not 0 <= member.size <= LARGEST_FILE:
        return f"it has {member.size} bytes, more than the limit of {LARGEST_FILE}"
    if member.issym() or member.islnk():
        return f"it is a link (to {member.linkname!r})"
    if not (member.isreg() or member.isdir()):
        return "it is neither a file nor a folder"
    return None
