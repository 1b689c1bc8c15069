"""Writing a wheel: members of another wheel as they are, and new ones."""

from __future__ import annotations

import copy
import hashlib
import stat
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.image.context import EPOCH
from vpatch.util.scratch import open_part
from vpatch.util.source_date import source_date_epoch

if TYPE_CHECKING:
    from vpatch.source.wheel.archive import WheelArchive, WheelMember

# A zip file has no time before 1980 and none after 2107.
_LAST = 4354819198
_DESCRIPTOR = 0x8
_UNIX = 3


class WheelWriter:
    """A wheel in the making, beside where it is to be. A kill leaves only a part file.

    What is new is not compressed: zlib's versions make different bytes of the same text.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._file = open_part(target)
        self._part = Path(self._file.name)
        self._zip = zipfile.ZipFile(self._file, "w")
        self._time = _zip_time()

    def copy(self, source: WheelArchive, member: WheelMember, name: str) -> None:
        """Put a member of another wheel here, under a name, without unpacking it."""
        info = copy.copy(member.info)
        info.filename = info.orig_filename = name
        # Its header has the sizes already, so none need follow its bytes.
        info.flag_bits &= ~_DESCRIPTOR
        info.extra = b""
        info.comment = b""
        self._file.seek(self._zip.start_dir)
        info.header_offset = self._file.tell()
        self._file.write(info.FileHeader())
        for piece in source.packed(member):
            self._file.write(piece)
        self._zip.start_dir = self._file.tell()
        self._zip.filelist.append(info)
        self._zip.NameToInfo[name] = info

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        info = zipfile.ZipInfo(name, self._time)
        info.create_system = _UNIX
        info.external_attr = (stat.S_IFREG | mode) << 16
        self._zip.writestr(info, content)

    def finish(self) -> str:
        """Put the wheel in its place, and return its digest as hexadecimal digits."""
        self._zip.close()
        self._file.flush()
        self._file.seek(0)
        digest = hashlib.file_digest(self._file, "sha256").hexdigest()
        self._part.replace(self._target)
        self._file.close()
        return digest

    def discard(self) -> None:
        """Remove what was written, unless it is in its place."""
        # On a full disk, neither can be closed without an error.
        with suppress(OSError, ValueError):
            self._zip.close()
        with suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)


def _zip_time() -> tuple[int, int, int, int, int, int]:
    seconds = source_date_epoch()
    at = datetime.fromtimestamp(min(max(EPOCH, seconds or EPOCH), _LAST), UTC)
    return at.year, at.month, at.day, at.hour, at.minute, at.second
