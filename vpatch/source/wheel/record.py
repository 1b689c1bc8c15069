"""RECORD: the list of a distribution's files, each with its digest and its size."""

from __future__ import annotations

import base64
import csv
import io
import os
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORD = "RECORD"
_COLUMNS = 3
_SHA256 = "sha256="
_DIGITS = re.compile("[A-Za-z0-9_-]{43}=?")


class WheelRecordError(VpatchError):
    """RECORD is missing, cannot be read, or does not fit the files."""

    code = "wheel.wrong-record"


@dataclass(frozen=True)
class RecordRow:
    """A line of RECORD. `digest` and `size` are empty for RECORD itself and for bytecode."""

    path: str
    digest: str
    size: str

    @property
    def sha256(self) -> str | None:
        """The digest as `sha256:HEX`; None if the line has none of that kind."""
        if not self.digest.startswith(_SHA256):
            return None
        text = self.digest.removeprefix(_SHA256)
        # base64 passes over characters that it does not know.
        if not _DIGITS.fullmatch(text):
            return None
        return f"sha256:{base64.urlsafe_b64decode(text.rstrip('=') + '=').hex()}"


def row_of(path: str, sha256: str, size: int) -> RecordRow:
    """Return the line of a file; `sha256` is `sha256:HEX`."""
    digest = base64.urlsafe_b64encode(bytes.fromhex(sha256.partition(":")[2]))
    return RecordRow(path, _SHA256 + digest.rstrip(b"=").decode(), str(size))


def parse_record(text: bytes, where: str) -> dict[str, RecordRow]:
    """Return the lines by their paths, in their order.

    Raises:
        WheelRecordError: it is not a RECORD.
    """
    rows: dict[str, RecordRow] = {}
    try:
        for line in csv.reader(io.StringIO(text.decode(), newline="")):
            if not line:
                continue
            if len(line) != _COLUMNS or line[0] in rows:
                raise _wrong(f"the line of {line[0]!r} is wrong, or is there twice", where)
            if not _is_plain(line[0]):
                raise _wrong(f"{line[0]!r} is another name of the path of a file", where)
            rows[line[0]] = RecordRow(*line)
    except (UnicodeDecodeError, csv.Error) as error:
        raise _wrong(f"it cannot be read: {error}", where) from error
    return rows


def _is_plain(path: str) -> bool:
    """Whether a path has no other spelling. Scripts lie above the folder: `../../../bin/vllm`."""
    return posixpath.normpath(path) == path or os.path.isabs(path)  # noqa: PTH117 - a text


def record_text(rows: Iterable[RecordRow]) -> bytes:
    """Return the text of a RECORD, the same for the same lines."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow((row.path, row.digest, row.size))
    return text.getvalue().encode()


def _wrong(what: str, where: str) -> WheelRecordError:
    hint = "install vLLM again, or download the wheel again"
    return WheelRecordError(what, where=where, hint=hint)
