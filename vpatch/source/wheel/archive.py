"""A wheel as a file: its members where they lie, so that they can be copied without unpacking."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from vpatch.errors import VpatchError
from vpatch.util.os_errors import path_or_machine_error
from vpatch.util.plural import shortened
from vpatch.util.untrusted import LARGEST_FILE, plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_CHUNK = 1 << 20
# Of compressed bytes: deflate makes at most a thousand times as many of them.
_PACKED_CHUNK = 1 << 16
_HEADER = 30
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1
_UTF8 = 0x800
_SHOWN = 20
_LONGEST = 200
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class DamagedWheelError(VpatchError):
    """A file is not a wheel, or is damaged."""

    code = "wheel.damaged"


class UnsafeWheelError(VpatchError):
    """A wheel has a member that no installer should unpack."""

    code = "wheel.unsafe"


@dataclass(frozen=True)
class WheelMember:
    """A file in a wheel; `start` is where its compressed bytes begin."""

    info: zipfile.ZipInfo
    start: int

    @property
    def end(self) -> int:
        return self.start + self.info.compress_size


class WheelArchive:
    """A wheel that is open for reading. Close it after use."""

    def __init__(self, path: Path) -> None:
        """Open a wheel and look at all its members, but unpack none.

        Raises:
            DamagedWheelError: it is not a zip file, or its parts contradict each other.
            UnsafeWheelError: a member leaves the tree, is there twice, or cannot be read.
            VpatchError: the file cannot be read.
        """
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise path_or_machine_error(error) or self._damage_error(str(error)) from error
        try:
            self.members: Mapping[str, WheelMember] = self._members()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @cached_property
    def sha256(self) -> str:
        """The digest of the whole file, as hexadecimal digits."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def packed(self, member: WheelMember) -> Iterator[bytes]:
        """The bytes of a member as they lie in the file."""
        yield from self._pieces(member, _CHUNK)

    def unpacked(self, member: WheelMember) -> Iterator[bytes]:
        """The bytes of a member.

        Raises:
            DamagedWheelError: they are not what the zip file says of them.
        """
        info = member.info
        unpack = zlib.decompressobj(-zlib.MAX_WBITS)
        stored = info.compress_type == zipfile.ZIP_STORED
        size = crc = 0
        try:
            for piece in self._pieces(member, _PACKED_CHUNK):
                content = piece if stored else unpack.decompress(piece)
                size += len(content)
                if size > info.file_size:
                    break
                crc = zlib.crc32(content, crc)
                yield content
        except zlib.error as error:
            raise self._damage_error(f"{info.filename} cannot be unpacked: {error}") from error
        if (size, crc) != (info.file_size, info.CRC) or not (stored or unpack.eof):
            raise self._damage_error(f"{info.filename} has other bytes than the zip file says")

    def read(self, name: str) -> bytes:
        """Return the content of a member, which must be there."""
        member = self.members[name]
        if member.info.file_size > LARGEST_FILE:
            raise self._unsafe(name, f"it has more than {LARGEST_FILE} bytes")
        return b"".join(self.unpacked(member))

    def sha256_of(self, name: str) -> str:
        """Return the digest of a member, as hexadecimal digits."""
        digest = hashlib.sha256()
        for piece in self.unpacked(self.members[name]):
            digest.update(piece)
        return digest.hexdigest()

    def _pieces(self, member: WheelMember, size: int) -> Iterator[bytes]:
        for place in range(member.start, member.end, size):
            wanted = min(size, member.end - place)
            piece = os.pread(self._file.fileno(), wanted, place)
            if len(piece) != wanted:
                raise self._damage_error(f"{member.info.filename} is cut off")
            yield piece

    def _members(self) -> dict[str, WheelMember]:
        try:
            with zipfile.ZipFile(self._file) as archive:
                infos, end = archive.infolist(), archive.start_dir
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise self._damage_error(f"it is not a zip file: {error}") from error
        members: dict[str, WheelMember] = {}
        problems: dict[str, str] = {}
        for info in infos:
            reason = _reason_to_refuse(info)
            if info.filename in members:
                reason = "the wheel has it twice"
            if reason:
                problems[info.filename] = reason
                continue
            members[info.filename] = WheelMember(info, self._start_of(info))
        for name in members:
            above = name.rstrip("/").split("/")[:-1]
            if any("/".join(above[: depth + 1]) in members for depth in range(len(above))):
                problems[name] = "it lies below a file"
        self.refuse(problems)
        last = 0
        for member in sorted(members.values(), key=lambda one: one.start):
            if member.info.header_offset < last or member.end > end:
                raise self._unsafe(member.info.filename, "its bytes belong to another member too")
            last = member.end
        return members

    def _start_of(self, info: zipfile.ZipInfo) -> int:
        """Where the bytes of a member begin: its own header says how long it is."""
        # Of a file that was cut off at its beginning, zipfile gives a negative place.
        if info.header_offset < 0:
            raise self._damage_error(f"{info.filename} begins before the file")
        header = os.pread(self._file.fileno(), _HEADER, info.header_offset)
        if len(header) != _HEADER or not header.startswith(_SIGNATURE):
            raise self._damage_error(f"{info.filename} has no header")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        name = os.pread(self._file.fileno(), name_length, info.header_offset + _HEADER)
        if name != info.orig_filename.encode(
            "utf-8" if info.flag_bits & _UTF8 else "cp437", "replace"
        ):
            raise self._unsafe(info.filename, "its header has another name")
        return info.header_offset + _HEADER + int(name_length) + int(extra_length)

    def _damage_error(self, what: str) -> DamagedWheelError:
        return DamagedWheelError(what, where=str(self.path), hint="download the wheel again")

    def refuse(self, problems: Mapping[str, str]) -> None:
        """Refuse the wheel for some members, by their names, if there are any.

        Raises:
            UnsafeWheelError: it names each, and why.
        """
        if not problems:
            return
        (name, reason), *others = problems.items()
        lines = [f"{one[:_LONGEST]!r}: {why}" for one, why in others]
        more = "".join(f"\n    {line}" for line in shortened(lines, _SHOWN))
        raise self._unsafe(name, reason + more)

    def _unsafe(self, name: str, reason: str) -> UnsafeWheelError:
        return UnsafeWheelError(
            f"the member {name[:_LONGEST]!r} is refused: {reason}",
            where=str(self.path),
            hint="do not trust this wheel; download the official one",
        )


def _reason_to_refuse(info: zipfile.ZipInfo) -> str | None:
    name, mode = info.orig_filename, info.external_attr >> 16
    try:
        plain_path(name.removesuffix("/"))
    except ValueError as error:
        return str(error)
    is_folder = name.endswith("/")
    kind = stat.S_IFDIR if is_folder else stat.S_IFREG
    reasons = (
        ("\\" in name or name != info.filename, "some systems read its name as another path"),
        (stat.S_IFMT(mode) not in {0, kind}, "its mode is that of a link, a device or a pipe"),
        (mode & (stat.S_ISUID | stat.S_ISGID), "it would run with the rights of its owner"),
        (is_folder and info.file_size, "it is a folder, and has content"),
        (info.flag_bits & _ENCRYPTED, "it is encrypted"),
        (info.compress_type not in _METHODS, "it is compressed in a way that no wheel may use"),
    )
    return next((reason for is_so, reason in reasons if is_so), None)
